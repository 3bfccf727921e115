package prepare

import (
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/inventory"
)

// findNodes finds the device nodes that all GPUs share.
func (p *Preparer) findNodes(out *inventory.Prepared) {
	host, seen := p.cfg.DevRoot, p.cfg.DevRoot
	switch {
	case host == "" && exists(filepath.Join(p.cfg.Root.CtrPath(), "dev/nvidiactl")):
		host, seen = p.cfg.Root.HostPath(), p.cfg.Root.CtrPath()
	case host == "":
		host, seen = "/", "/"
	case host != "/":
		// "/dev" has the same path here and on the host. Other folders are in the driver root.
		if ctr, ok := p.cfg.Root.CtrPathOf(host); ok {
			seen = ctr
		}
	}
	out.DevRoot = host
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"} {
		if exists(filepath.Join(seen, path)) {
			out.ControlNodes = append(out.ControlNodes, path)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
