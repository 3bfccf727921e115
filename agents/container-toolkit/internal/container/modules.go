package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/text"
)

// LoadModules loads the driver's kernel modules with the modprobe of the driver root if
// they are not loaded.
func (c Config) LoadModules() error {
	_, err := driverproc.Root(c.Proc).Version()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Not every driver has the last one.
	for _, module := range []struct {
		name     string
		required bool
	}{{"nvidia", true}, {"nvidia-uvm", true}, {"nvidia-modeset", false}} {
		if err := c.modprobe(module.name); err != nil && module.required {
			return fmt.Errorf("load kernel module %s: %w (install the driver, or load it by hand)", module.name, err)
		}
	}
	return nil
}

func (c Config) modprobe(module string) error {
	cmd := exec.Command("/sbin/modprobe", module)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	if root := c.Driver.CtrPath(); root != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err != nil && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s has no /sbin/modprobe", c.Driver.HostPath())
	}
	if err != nil {
		return fmt.Errorf("modprobe: %w: %s", err, text.Cut(text.Printable(strings.TrimSpace(stderr.String())), 300))
	}
	return nil
}

// NVMLBusID returns a PCI bus ID as NVML writes it: with eight digits for the domain.
func NVMLBusID(id string) string {
	domain, rest, _ := strings.Cut(id, ":")
	return strings.Repeat("0", max(0, 8-len(domain))) + strings.ToUpper(domain+":"+rest)
}
