package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/procowner"
)

// node is the node of a command.
type node struct {
	*apply.Applier
	session *nvml.Session
	runRoot string
}

// driver returns the driver of the node.
func (s *settings) driver() (*driver.Driver, error) {
	return driver.New(s.host, config.Driver{Root: s.host.DriverRoot, DevRoot: s.host.DevRoot})
}

// openNode opens the node that the flags describe. The caller closes its session.
func (s *settings) openNode(log *slog.Logger) (*node, error) {
	d, err := s.driver()
	if err != nil {
		return nil, err
	}
	d.LeaseWait = s.leaseWait
	session, err := d.Session(log)
	if err != nil {
		return nil, err
	}
	a, err := s.applier(d, session, apply.Config{Processes: apply.Processes{Root: procowner.Root{Proc: s.host.ProcRoot}}, Log: log})
	if err != nil {
		return nil, err
	}
	return &node{Applier: a, session: session, runRoot: s.host.RunRoot}, nil
}

// applier returns an Applier of the node that the flags describe.
func (s *settings) applier(d *driver.Driver, session *nvml.Session, cfg apply.Config) (*apply.Applier, error) {
	cfg.Session, cfg.Pins, cfg.StateDir, cfg.Sys = session, d.Pins(), s.stateDir, s.host.SysRoot
	cfg.Reset, cfg.Board = apply.SMI{DriverRoot: d.Root.CtrPath()}, knownBoard
	cfg.Devices = devnode.Config{Proc: s.host.ProcRoot, Dev: d.Root.Dev()}
	return apply.New(cfg)
}

// onNode opens the node that the flags describe, calls do, and closes the node.
func (s *settings) onNode(log *slog.Logger, do func(*node) error) error {
	n, err := s.openNode(log)
	if err != nil {
		return err
	}
	return errors.Join(do(n), n.session.Close())
}

// loadedAs returns the value for manager.Config.Loaded: the version of the loaded driver, and the
// inode number of the module's folder in sysfs. This number changes each time the module is loaded.
func loadedAs(host agent.Host) string {
	version, err := driverproc.Root(host.ProcRoot).Version()
	if err != nil {
		return ""
	}
	var st unix.Stat_t
	if unix.Stat(filepath.Join(host.SysRoot, "module/nvidia"), &st) != nil {
		return version
	}
	return fmt.Sprintf("%s/%d", version, st.Ino)
}

// knownBoard returns the board of a product, from the table of known boards.
func knownBoard(pci gpu.PCI, memoryBytes uint64) (mig.Board, bool) {
	p, ok := boards.Find(pci, memoryBytes)
	return p.Board, ok
}
