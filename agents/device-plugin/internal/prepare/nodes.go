package prepare

import (
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/inventory"
)

// findNodes finds the device nodes that all GPUs share.
func (p *Preparer) findNodes(out *inventory.Prepared) {
	out.DevRoot = p.cfg.Root.DevRoot()
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"} {
		if _, err := os.Stat(filepath.Join(p.cfg.Root.Dev(), name)); err == nil {
			out.ControlNodes = append(out.ControlNodes, "/dev/"+name)
		}
	}
}
