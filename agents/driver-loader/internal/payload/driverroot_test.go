package payload_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/driverroot"
)

// The device plugin and the container toolkit find the driver with this package.
func TestOtherAgentsFindTheDriverInItsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for device nodes")
	}
	p, err := payload.Store{Dir: t.TempDir(), Machine: "x86_64"}.Import(t.Context(), payloadtest.Driver{Version: version}.Archive(t, "zstd"))
	assert.NilError(t, err)
	for name, number := range map[string]uint64{"nvidiactl": unix.Mkdev(195, 255), "nvidia-uvm": unix.Mkdev(510, 0)} {
		if err := unix.Mknod(p.Root+"/dev/"+name, unix.S_IFCHR|0o666, int(number)); err != nil { //nolint:gosec // a small number
			t.Skip("this machine has no device nodes in its folder of temporary files: ", err)
		}
	}
	root, err := driverroot.New(driverroot.Config{HostPath: "/run/nvidia/driver", CtrPath: p.Root})
	assert.NilError(t, err)
	content, err := root.Find()
	assert.NilError(t, err)
	if content.Version != version || len(content.Libraries) < 4 || len(content.Binaries) != 2 || len(content.Firmware) != 1 ||
		content.Firmware[0].Path != "/lib/firmware/nvidia/"+version+"/gsp_ga10x.bin" {
		t.Errorf("%+v", content)
	}
	found := map[string]bool{}
	for _, c := range content.Configs {
		found[c.Path] = true
	}
	if !found["/etc/vulkan/icd.d/nvidia_icd.json"] || !found["/etc/OpenCL/vendors/nvidia.icd"] {
		t.Errorf("%+v", content.Configs)
	}
}
