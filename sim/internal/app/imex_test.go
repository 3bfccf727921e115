package app_test

import (
	"testing"

	"gotest.tools/v3/assert"
)

// The module parameter NVreg_CreateImexChannel0 and nvidia-modprobe make the nodes; without them, there are none.
func TestIMEXChannels(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	const major = `printf '%x\n' $(sed -n 's/ nvidia-caps-imex-channels$//p' /proc/devices)`
	s.must("create", "--gpus", "1", "--model", "gb200", "--imex-channels", "2")
	sh := s.shell()
	want := sh.run(major)
	assert.Equal(t, sh.run("cd /dev/nvidia-caps-imex-channels && stat -c '%n %a %t:%T' *"), "channel0 666 "+want+":0\nchannel1 666 "+want+":1")
	assert.Equal(t, sh.run("grep CreateImexChannel0 /proc/driver/nvidia/params"), "CreateImexChannel0: 1")
	assert.Equal(t, sh.run("cat /dev/nvidia-caps-imex-channels/channel0 2>&1 || true"), "cat: /dev/nvidia-caps-imex-channels/channel0: No such device or address")
	s.must("set", "driver=off")
	assert.Equal(t, sh.run("ls /dev/nvidia-caps-imex-channels 2>/dev/null || echo none"), "none")
	s.must("delete")

	s.must("create", "--gpus", "1", "--model", "gb200")
	assert.Equal(t, s.shell().run("ls /dev/nvidia-caps-imex-channels 2>/dev/null || grep CreateImexChannel0 /proc/driver/nvidia/params"), "CreateImexChannel0: 0")
}
