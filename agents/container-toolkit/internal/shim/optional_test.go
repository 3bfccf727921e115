package shim_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

// device makes a device node below the driver root.
func (n *node) device(name string) {
	n.t.Helper()
	n.write("driver/dev/"+name, "", 0o600)
	assert.NilError(n.t, os.Remove(n.path("driver/dev/"+name)))
	err := unix.Mknod(n.path("driver/dev/"+name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if errors.Is(err, unix.EPERM) {
		n.t.Skip("device nodes cannot be made here: CAP_MKNOD is missing")
	}
	assert.NilError(n.t, err)
}

// Images set the variables of optional hardware for every node: the container starts, and has the
// hardware of the node, whichever spec exists.
func TestOptionalHardware(t *testing.T) {
	const usable, stale = `"type":"c","major":1,"minor":5`, `"hostPath":"/dev/outrigger-none"`
	for gate, node := range map[string]string{
		"gdrcopy": "gdrdrv", "gds": "nvidia-fs0", "mofed": "infiniband/uverbs0", "nvswitch": "nvidia-nvswitch0",
	} {
		for name, specs := range map[string][]string{
			"without a spec": nil, "with a spec": {usable}, "with a spec of a node that is gone": {stale}, "with two specs": {stale, stale},
		} {
			for _, mode := range []string{"cdi", "legacy"} {
				t.Run(gate+" absent "+name+" in mode "+mode, func(t *testing.T) {
					if _, err := os.Stat("/dev/" + node); err == nil {
						t.Skip("this machine has the hardware")
					}
					newOptional(t, gate, node, specs).start(mode, name == "with a spec")
				})
				t.Run(gate+" present "+name+" in mode "+mode, func(t *testing.T) {
					n := newOptional(t, gate, node, specs)
					n.node.device(node)
					n.start(mode, true)
				})
			}
		}
	}
}

// optional is a node for a kind of optional hardware.
type optional struct {
	*node
	gate, device string
}

// newOptional returns a node whose specs describe the device node with these fields, in one file
// each.
func newOptional(t *testing.T, gate, device string, fields []string) optional {
	t.Helper()
	n := optional{newNode(t), gate, device}
	config := strings.ReplaceAll(n.read("config.toml"), "DIR", n.dir)
	n.write("config.toml", fmt.Sprintf("%s\n[nvidia-container-cli]\nroot = %q\n", config, n.path("driver")), 0o644)
	n.node.device("nvidiactl")
	for i, f := range fields {
		n.write(fmt.Sprintf("cdi/%d.json", i), fmt.Sprintf(`{"cdiVersion":"0.5.0","kind":"nvidia.com/%s","devices":[{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/%s",%s}]}}]}`, gate, device, f), 0o644)
	}
	return n
}

// start creates a container, which gets the hardware, or a warning in the log of the engine.
func (n optional) start(mode string, want bool) {
	n.t.Helper()
	variable := "NVIDIA_" + strings.ToUpper(n.gate) + "=enabled"
	n.bundle("NVIDIA_VISIBLE_DEVICES=0", variable)
	r := n.create(program + "." + mode)
	if r.path == "" {
		n.t.Fatalf("the container is refused: %s", r.err)
	}
	config, log := n.read("bundle/config.json"), n.read("log.json")
	if got := strings.Contains(config, `"path":"/dev/`+n.device+`"`); got != want {
		n.t.Errorf("the container has /dev/%s: %v, want %v: %s", n.device, got, want, config)
	}
	if got := strings.Contains(log, variable+" has no effect: the host has no device node "); got == want {
		n.t.Errorf("the engine gets a warning: %v, want %v: %s", got, !want, log)
	}
}
