package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// loadedFile is a file in the run root. It has the identity of the module nvidia that this agent loads, and like the
// module, it does not survive a reboot. It is not in the store, which may be lost while the driver is loaded.
const loadedFile = "driver-loader.json"

// moduleIdentity identifies a loaded module.
type moduleIdentity struct {
	BuildID    string `json:"buildID,omitempty"`
	Version    string `json:"version"`
	SrcVersion string `json:"srcVersion,omitempty"`
}

// is reports whether a loaded module has this identity.
func (i moduleIdentity) is(m kernel.Loaded) bool {
	if m.BuildID != "" && i.BuildID != "" {
		return m.BuildID == i.BuildID
	}
	return i.Version == m.Version && i.SrcVersion == m.SrcVersion
}

// recordLoading records the identity of the module nvidia before it is loaded, so that an agent that is killed meanwhile
// recognizes its module.
func (l *Loader) recordLoading(m *module.Module) error {
	if m.Name != stack.Core {
		return nil
	}
	if err := hostfs.WriteJSON(l.loadedPath(), moduleIdentity{BuildID: m.BuildID, Version: m.Version, SrcVersion: m.SrcVersion}, 0o644); err != nil {
		return fmt.Errorf("record the module that is loaded: %w", err)
	}
	return nil
}

func (l *Loader) loadedPath() string { return filepath.Join(l.cfg.Contract.Root, loadedFile) }

// observeOwner adds who has built and loaded the loaded driver.
func (l *Loader) observeOwner(o *Observation) {
	core, loaded := o.Modules[stack.Core]
	if !loaded {
		return
	}
	own, err := hostfs.ReadJSON[moduleIdentity](l.loadedPath(), maxJournal)
	if err == nil && own.is(core) || o.Noted && core.BuildID == "" {
		return
	}
	set, found := builtAs(core, o.Sets)
	if o.Noted = o.Noted && found && o.Running.Digest == set.Key.Sources; o.Noted {
		return
	}
	if o.Stranger = !found; found {
		o.Running = Driver{Version: set.Key.Driver, Flavour: payload.Flavour(set.Key.Flavour), Digest: set.Key.Sources}
	}
}

// builtAs returns the set in the cache that has a loaded module, by its build ID.
func builtAs(core kernel.Loaded, sets []cache.Set) (cache.Set, bool) {
	i := slices.IndexFunc(sets, func(s cache.Set) bool {
		return core.BuildID != "" && module.ReadBuildID(s.Path(core.Name)) == core.BuildID
	})
	if i < 0 {
		return cache.Set{}, false
	}
	return sets[i], true
}

// The files of NVIDIA's driver container in the run root.
const (
	// containerReady exists while its driver works.
	containerReady = "validations/.driver-ctr-ready"
	// containerLock is locked while it runs. The file remains if the driver is in use when the container ends.
	containerLock = "nvidia-driver.pid"
)

// observeContainer adds the state of NVIDIA's driver container.
func (l *Loader) observeContainer(o *Observation) error {
	_, err := os.Lstat(filepath.Join(l.cfg.Contract.Root, containerReady))
	o.Container = err == nil
	lock, err := hostfs.Open(filepath.Join(l.cfg.Contract.Root, containerLock))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer lock.Close()
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		o.Container = true
	case err != nil:
		return fmt.Errorf("check whether NVIDIA's driver container runs: %w", err)
	default:
		o.ContainerEnded = !o.Container
	}
	return nil
}

// ownedByContainer reports whether NVIDIA's driver container has loaded the driver and manages it.
func (o Observation) ownedByContainer() bool {
	return o.Container && o.Running.Version != "" && !o.Noted
}

// foreign reports whether the loaded driver belongs to another program, and stays. The driver of NVIDIA's driver
// container is taken over when the container has ended.
func (o Observation) foreign(d Desired) bool {
	return o.Stranger && o.Running.Version != "" && !o.ContainerEnded && !d.ReplaceForeign
}

// BlockedByForeign reports whether a loaded driver of another program prevents that the desired driver is loaded.
func (o Observation) BlockedByForeign(d Desired) bool {
	next, missing := o.desired(d)
	return missing == nil && o.foreign(d) && o.differs(next)
}

// ForeignDriverCause returns the cause for a loaded driver that belongs to another program.
func (o Observation) ForeignDriverCause() cause.Cause {
	return cause.New(cause.DriverOfOtherProgram, "driver "+o.Running.Version, "it is loaded, and this agent has neither built nor loaded it")
}
