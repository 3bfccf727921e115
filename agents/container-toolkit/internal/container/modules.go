package container

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/modprobe"
	"outrigger.dev/pkg/devnode"
)

// LoadModules loads the driver's kernel modules if they are not loaded, and makes missing device
// nodes.
func (c Config) LoadModules(ctx context.Context) error {
	driver := devnode.Driver(c.Proc)
	wanted, err := driver.Control()
	if err != nil {
		loading := modprobe.Load(ctx, c.Driver.CtrPath(), modprobe.Unloaded("/sys"))
		// Not every driver has the last module.
		if wanted, err = driver.Control(); err != nil {
			return errors.Join(err, loading)
		}
	}
	gpus, err := driver.GPUs()
	if err != nil {
		return err
	}
	plan, err := devnode.Nodes(filepath.Join(c.Driver.DevRoot(), "dev"), append(wanted, gpus...))
	return errors.Join(err, plan.Apply())
}

// NVMLBusID returns a PCI bus ID in NVML's form, whose domain has eight digits.
func NVMLBusID(id string) string {
	domain, rest, _ := strings.Cut(id, ":")
	return strings.Repeat("0", max(0, 8-len(domain))) + strings.ToUpper(domain+":"+rest)
}
