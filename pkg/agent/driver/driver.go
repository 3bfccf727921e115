// Package driver connects an agent that needs NVML to the driver of its node, as configured by
// flags that all such agents share. It is not part of package agent because it links C.
package driver

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/file"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
	"outrigger.dev/pkg/health/record"
	"outrigger.dev/pkg/hostfs"
)

// Driver is the driver of the node.
type Driver struct {
	// Root is the driver installation.
	Root *driverroot.Root
	// Contract is the folder for the files that the agents of the node share.
	Contract contract.Dir
	// LeaseWait is nvml.Config.LeaseWait of the sessions of Session.
	LeaseWait time.Duration

	host agent.Host
	pins *index.Pins
	log  *slog.Logger
}

// New returns the driver of a host, at the place that d describes.
func New(host agent.Host, d config.Driver) (*Driver, error) {
	// If the default folder does not exist, this process sees the driver root at its path on the
	// host.
	follows := host.DriverRootCtrPath == host.DriverRoot
	host.DriverRoot = d.Root
	switch {
	case d.CtrRoot != "":
		host.DriverRootCtrPath = d.CtrRoot
	case follows:
		host.DriverRootCtrPath = d.Root
	}
	root, err := driverroot.New(driverroot.Config{
		HostPath: host.DriverRoot,
		CtrPath:  host.DriverRootCtrPath,
		DevRoot:  d.DevRoot,
		ProcRoot: host.ProcRoot,
		SysRoot:  host.SysRoot,
	})
	if err != nil {
		return nil, err
	}
	return &Driver{
		Root:     root,
		Contract: contract.Dir{Root: host.RunRoot, ProcRoot: host.ProcRoot},
		host:     host,
		log:      slog.New(slog.DiscardHandler),
	}, nil
}

// Effective returns the roots of the driver for agent.Agent.Effective, for an agent whose config
// may change them.
func (d *Driver) Effective() []slog.Attr {
	return []slog.Attr{
		slog.String(agent.SettingKey("driver-root"), d.host.DriverRoot),
		slog.String(agent.SettingKey("driver-root-ctr-path"), d.host.DriverRootCtrPath),
	}
}

// Source returns the GPU source that the flag --gpu-source names. Afterwards, d reports to log why
// it waits.
func (d *Driver) Source(log *slog.Logger) (gpu.Source, error) {
	if d.host.Snapshot != "" {
		d.log, d.Contract.Log = log, log
		return file.New(d.host.Snapshot, log), nil
	}
	session, err := d.Session(log)
	if err != nil {
		return nil, err
	}
	return d.Reader(session, log), nil
}

// Session returns access to NVML, for an agent that calls NVML in addition to its GPU source.
// Afterwards, d reports to log why it waits.
func (d *Driver) Session(log *slog.Logger) (*nvml.Session, error) {
	d.log, d.Contract.Log = log, log
	return nvml.New(nvml.Config{DriverRoot: d.Root, Proc: d.proc(), Lease: d.Contract.NVML(), LeaseWait: d.LeaseWait, Log: log})
}

// Reader returns a source that reads the GPUs of the node through a session.
func (d *Driver) Reader(session *nvml.Session, log *slog.Logger) gpu.Source {
	return reader.New(reader.Config{Session: session, Proc: d.proc(), SysRoot: d.host.SysRoot, Pins: d.Pins(), Log: log})
}

// Pins returns the indices of the GPUs of the node. Call it after Source or Session.
func (d *Driver) Pins() *index.Pins {
	if d.pins == nil {
		d.pins = index.New(index.Config{
			Contract: d.Contract, Dir: index.Dir(d.host.IndexDir, d.host.RunRoot), Writer: filepath.Base(os.Args[0]), Log: d.log,
		})
	}
	return d.pins
}

// Incidents returns the record of the XIDs that the agents of the node share. It is nil for a source that
// does not show the GPUs of the node.
func (d *Driver) Incidents(src gpu.Source, log *slog.Logger) *record.Record {
	if d.host.Snapshot != "" {
		return nil
	}
	return record.New(record.Config{Contract: d.Contract, Source: src, Writer: filepath.Base(os.Args[0]), Log: log})
}

func (d *Driver) proc() driverproc.Root { return driverproc.Root(d.host.ProcRoot) }

// WatchChanges calls changed once, and then after each change that may mean that a driver was
// installed or completed, or that another agent released NVML. It returns when ctx ends.
func (d *Driver) WatchChanges(ctx context.Context, changed func()) error {
	hostfs.Watch(ctx, d.log, changed, d.changes()...)
	return nil
}

func (d *Driver) changes() []string {
	return append([]string{
		d.Contract.Path(contract.DriverReady), filepath.Dir(d.Contract.NVML().Path()),
	}, d.Root.Changing()...)
}

// Checks returns the checks of a source for /healthz. If a call of the driver hangs, only a restart
// of the process helps.
func Checks(src gpu.Source) map[string]func() error {
	c, ok := src.(gpu.Checker)
	if !ok {
		return nil
	}
	return map[string]func() error{"nvml": c.Health}
}
