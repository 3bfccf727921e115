package ctk_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestSystem(t *testing.T) {
	h := newHost(t)
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia1"} {
		assert.NilError(t, os.Remove(filepath.Join(h.Root, "dev", name)))
	}
	const control = "make /dev/nvidiactl: character device 195:255, mode 0666\nmake /dev/nvidia-uvm: character device 511:0, mode 0666\n"
	links := "link /dev/char/195:254 -> ../nvidia-modeset\nlink /dev/char/511:0 -> ../nvidia-uvm\nlink /dev/char/511:1 -> ../nvidia-uvm-tools\n" +
		"link /dev/char/195:0 -> ../nvidia0\nlink /dev/char/195:1 -> ../nvidia1\nlink /dev/char/195:255 -> ../nvidiactl\n"
	for _, step := range []struct {
		args string
		want string
	}{
		{"create-device-nodes --control-devices --dry-run", control},
		{"create-device-nodes --control-devices", control},
		{"create-device-nodes --control-devices", ""},
		{"create-device-nodes --gpu-devices", "make /dev/nvidia1: character device 195:1, mode 0666\n"},
		{"create-dev-char-symlinks --dry-run", links},
		{"create-dev-char-symlinks --create-device-nodes", links},
		{"create-dev-char-symlinks", ""},
	} {
		stdout, stderr, err := h.ctk(append([]string{"system"}, strings.Fields(step.args)...)...)
		if err != nil || stderr != "" {
			t.Fatalf("%s: %v, %s", step.args, err, stderr)
		}
		// The capabilities depend on where the MIG devices lie.
		var rest strings.Builder
		for line := range strings.Lines(stdout) {
			if !strings.Contains(line, "nvidia-caps") {
				rest.WriteString(line)
			}
		}
		if rest.String() != step.want {
			t.Errorf("%s prints\n%s\nwant\n%s", step.args, rest.String(), step.want)
		}
	}
	target, err := os.Readlink(filepath.Join(h.Root, "dev/char/511:0"))
	if err != nil || target != "../nvidia-uvm" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	all, _, err := h.ctk("system", "create-dev-char-symlinks", "--create-all", "--dry-run")
	if n := strings.Count(all, "nvidia-caps/nvidia-cap"); err != nil || n < 200 {
		t.Errorf("--create-all makes %d links to capabilities, %v, want those of all instances that could be", n, err)
	}
	if _, stderr, err := h.ctk("system", "create-device-nodes"); err == nil || !strings.Contains(stderr, "set --control-devices") {
		t.Errorf("without a choice it prints %q, %v", stderr, err)
	}
	if stdout, _, _ := h.ctk("system", "create-device-nodes", "--load-kernel-modules", "--dry-run", "--driver-root=/run/nvidia/driver"); !strings.Contains(stdout, "load kernel module nvidia-uvm with /sbin/modprobe of /run/nvidia/driver\n") {
		t.Errorf("--load-kernel-modules prints %q", stdout)
	}
	params := filepath.Join(h.Root, "proc/driver/nvidia/params")
	data, err := os.ReadFile(params)
	if err == nil {
		err = os.WriteFile(params, bytes.Replace(data, []byte("ModifyDeviceFiles: 1"), []byte("ModifyDeviceFiles: 0"), 1), 0o600)
	}
	node := filepath.Join(h.Root, "dev/nvidia1")
	assert.NilError(t, errors.Join(err, os.Remove(node)))
	if stdout, stderr, err := h.ctk("system", "create-device-nodes", "--control-devices", "--gpu-devices"); err == nil || stdout != "" || !strings.Contains(stderr, "missing in /dev: nvidia1; make them") {
		t.Errorf("with ModifyDeviceFiles: 0 it prints %q and %q, %v", stdout, stderr, err)
	}
	if _, err := os.Lstat(node); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was made: %v", node, err)
	}
}
