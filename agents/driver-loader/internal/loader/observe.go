package loader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/procowner"
)

// observeDriverAndDesired returns the result of observeDriver, and the desired state of the node.
func (l *Loader) observeDriverAndDesired() (Observation, Desired, error) {
	o, err := l.observeDriver()
	if err != nil {
		return Observation{}, Desired{}, err
	}
	d, err := l.cfg.Desired()
	return o, d, err
}

// observeDriver observes the loaded driver and the available ones. It may run concurrently with Settle.
func (l *Loader) observeDriver() (Observation, error) {
	var o Observation
	var errs []error
	var err error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	o.Devices, err = pci.Scan(l.cfg.Kernel.Sys)
	note(err)
	o.Kernel, err = l.observeKernel()
	note(err)
	o.Modules, err = kernel.Modules(l.cfg.Kernel)
	note(err)
	note(l.observeStore(&o))
	o.Host = l.hostDriver()
	note(l.observeContainer(&o))
	return o, errors.Join(errs...)
}

// observeKernel returns the running kernel. It observes the kernel only once.
func (l *Loader) observeKernel() (k kernel.Kernel, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kernel.Release == "" {
		l.kernel, err = kernel.Observe(l.cfg.Kernel)
	}
	return l.kernel, err
}

// Observe observes the node. If a part cannot be read, the error says so, and the observation lacks
// this part.
func (l *Loader) Observe(ctx context.Context) (Observation, error) {
	o, err := l.observeDriver()
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	note(err)
	o.Claimed, o.Validated, o.Rehearsed = l.grant != nil, l.validated, l.rehearsed()
	if o.Adapter = pci.Present(l.cfg.Kernel.Sys, pci.Mellanox); o.Adapter {
		o.Network = l.cfg.Builder.Places.Network(o.Kernel.Release, o.Kernel.Machine).ID
	}
	l.observeTools(ctx, &o)
	o.Displays, err = l.displays(ctx, o)
	note(err)
	if o.Running.Version == "" {
		return o, errors.Join(errs...)
	}
	missing, err := devnode.Missing(l.cfg.Nodes)
	note(err)
	o.MissingNodes = len(missing)
	if l.cfg.Daemons != nil && o.Host == "" && o.Shown != "" && o.Shown == o.Running.Digest {
		o.Daemons = l.cfg.Daemons.Missing()
	}
	o.Published = l.published(o)
	if !o.Claimed && o.Change != nil {
		o.Users, err = l.users(ctx)
		note(err)
	}
	if o.Claimed {
		o.Holders, err = l.Holders(ctx)
		note(err)
	}
	return o, errors.Join(errs...)
}

// observeStore adds the content of the store, and the loaded driver with its parameters from the journal.
func (l *Loader) observeStore(o *Observation) error {
	noted, journalErr := l.journal.read()
	o.Change, o.Before, o.Failure = noted.Change, noted.Works, noted.Failure
	o.Tried, o.Sources = noted.Tried, optional.List(l.cfg.Store)
	var payloadsErr, setsErr, shownErr error
	o.Payloads, payloadsErr = l.payloads.List()
	var sets []cache.Set
	sets, setsErr = l.cache.List()
	for _, s := range sets {
		if s.Key == l.request(o.Kernel, payload.Payload{Version: s.Key.Driver, Digest: s.Key.Sources}, payload.Flavour(s.Key.Flavour)).Key(o.Kernel.Banner) {
			o.Sets = append(o.Sets, s)
		}
	}
	for _, p := range o.Payloads {
		if p.Root == "" {
			continue
		}
		is, err := l.cfg.Place.Shown(p.Root)
		if is {
			o.Shown = p.Digest
		}
		shownErr = errors.Join(shownErr, err)
	}
	if core, ok := o.Modules[stack.Core]; ok {
		o.Running, o.Noted = running(core, noted.Loaded)
		l.observeOwner(o)
		o.Running = o.Running.known(*o)
	}
	return errors.Join(journalErr, payloadsErr, setsErr, shownErr)
}

// running returns the loaded driver. It reports whether this is the driver in the journal, whose
// parameters are known.
func running(core kernel.Loaded, noted Driver) (d Driver, is bool) {
	d = Driver{Version: core.Version, Flavour: payload.Open}
	// Modules with an open license do not taint the kernel.
	if strings.Contains(core.Taint, "P") {
		d.Flavour = payload.Proprietary
	}
	if noted.ModuleVersion() == d.Version && noted.Flavour == d.Flavour {
		return noted, true
	}
	return d, false
}

// hostDriver returns the version of the driver that is installed in the host's root, or "".
func (l *Loader) hostDriver() string {
	if l.cfg.HostRoot == "" {
		return ""
	}
	root, err := driverroot.New(driverroot.Config{CtrPath: l.cfg.HostRoot, ProcRoot: l.cfg.Kernel.Proc, SysRoot: l.cfg.Kernel.Sys})
	if err != nil {
		return ""
	}
	file, err := root.FindLibrary(driverroot.NVML)
	if err != nil {
		return ""
	}
	_, version, _ := strings.Cut(filepath.Base(file), ".so.")
	return version
}

// record returns the content of the fact driver-ready.
func (l *Loader) record(o Observation) contract.Record {
	values := map[string]string{
		contract.KeyIsHostDriver: "false", contract.KeyDriverRoot: l.cfg.Place.At, contract.KeyDriverRootCtrPath: "/driver-root",
		contract.KeyDevRoot: "/", contract.KeyDevRootCtrPath: "/host",
	}
	if o.Host != "" {
		values[contract.KeyIsHostDriver], values[contract.KeyDriverRoot], values[contract.KeyDriverRootCtrPath] = "true", "/", "/host"
	}
	return contract.Record{Writer: Name, DriverVersion: o.Running.ModuleVersion(), Values: values}
}

// published returns the version in the fact driver-ready, or "" if the fact has to be written.
func (l *Loader) published(o Observation) string {
	fact, wanted := l.cfg.Contract.Read(contract.DriverReady), l.record(o)
	if fact.State != contract.Valid || fact.Stamp.Writer != Name {
		return ""
	}
	for key, value := range wanted.Values {
		if fact.Values[key] != value {
			return ""
		}
	}
	return fact.Stamp.DriverVersion
}

// Holders returns the processes that have a device of the driver open.
func (l *Loader) Holders(ctx context.Context) ([]holders.Holder, error) {
	driver := devnode.Driver(l.cfg.Kernel.Proc)
	control, controlErr := driver.Control()
	gpus, gpusErr := driver.GPUs()
	var devices []holders.Devices
	for _, n := range append(control, gpus...) {
		if !slices.ContainsFunc(devices, func(d holders.Devices) bool { return d.Major == n.Major }) {
			devices = append(devices, holders.Devices{Major: n.Major})
		}
	}
	found, err := holders.Find(ctx, procowner.Root{Proc: l.cfg.Kernel.Proc, PodLogs: l.cfg.PodLogs}, devices)
	if err != nil {
		err = fmt.Errorf("find the users of the driver: %w", err)
	}
	return found, errors.Join(controlErr, gpusErr, err)
}
