package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/pace"
)

// ReloadMode selects how an engine is made to load its config, as in the variable
// RUNTIME_RESTART_MODE.
type ReloadMode string

// The modes.
const (
	// Signal sends SIGHUP to the engine's process. Docker then loads its config. containerd
	// exits, and its supervisor starts it again. CRI-O does not support this mode.
	Signal ReloadMode = "signal"
	// Systemd runs systemctl on the host.
	Systemd ReloadMode = "systemd"
	// None leaves the restart to a person.
	None ReloadMode = "none"
)

// loadPause is the interval between two questions to an engine that loads its config. loadLimit
// limits the time of the load.
const (
	loadPause = 200 * time.Millisecond
	loadLimit = time.Minute
)

// ErrNotRunning means that the engine does not run. It loads its config when it starts.
var ErrNotRunning = errors.New("the container engine does not run")

// Loaded reports whether the running engine has loaded the runtimes. If not, differs describes a
// difference. An engine that does not answer counts as up to date if it started after the files
// were written.
func (k *Keeper) Loaded(ctx context.Context) (loaded bool, differs string, err error) {
	t, err := k.locate(ctx)
	if err != nil {
		return false, "", err
	}
	return k.loaded(ctx, t)
}

func (k *Keeper) loaded(ctx context.Context, t target) (bool, string, error) {
	l, err := k.ask(ctx, t)
	if err == nil {
		differs := l.missing(k.config.forEngine(t))
		if differs == "" && t.engine == CRIO {
			// After SIGHUP, CRI-O reports the new settings, but runs pods with the settings from its start.
			differs, err = k.outdated(t)
		}
		return err == nil && differs == "", differs, err
	}
	if t.process == nil {
		return false, "", cmp.Or(t.denied, fmt.Errorf("%s: %w", t.engine, ErrNotRunning))
	}
	k.log.Debug("cannot read the loaded config of the container engine, comparing times", "engine", t.engine, "err", err)
	rec, recErr := k.records.load(t.engine, t.main)
	if recErr != nil {
		return false, "", recErr
	}
	if rec.Written == (moment{}) {
		return false, "", err
	}
	differs, err := k.outdated(t)
	return err == nil && differs == "", differs, err
}

// outdated returns "" if the process of an engine started after its config was written, or if
// one of the two times is not known. Otherwise it returns why the process is outdated.
func (k *Keeper) outdated(t target) (string, error) {
	rec, err := k.records.load(t.engine, t.main)
	if err != nil || t.process == nil || rec.Written == (moment{}) || k.startedAfter(t.process, rec.Written) {
		return "", err
	}
	return "it was started before its config was changed", nil
}

// forEngine returns the desired settings that this engine supports.
func (c Config) forEngine(t target) Desired {
	d := c.Desired()
	if t.containerd.generated && !t.version.atLeast(mergesTables()) {
		// k3s and RKE2 register the runtime themselves, but not the runtimes for single modes.
		d.Runtimes, d.Default = d.Runtimes[:1], ""
	}
	if t.engine == Containerd && t.version.known() && !t.version.atLeast(version{1, 7}) {
		d.CDI = false
	}
	return d
}

// startedAfter reports whether a process started after a moment.
func (k *Keeper) startedAfter(p *process, m moment) bool {
	return m.Boot != k.host.boot() || p.start > m.Nanoseconds
}

// Reconcile writes the desired config, and makes the running engine load it if the engine has
// not loaded it yet. It does not make an engine load the same config twice. It returns an error if
// the host does not have the engine.
func (k *Keeper) Reconcile(ctx context.Context) (Plan, error) {
	t, err := k.locate(ctx)
	if err == nil {
		err = k.installed(t)
	}
	if err != nil {
		return Plan{}, err
	}
	p, err := k.Apply(ctx)
	if err != nil {
		return p, err
	}
	loaded, differs, err := k.Loaded(ctx)
	if errors.Is(err, ErrNotRunning) {
		return p, nil
	}
	if err != nil || loaded {
		return p, err
	}
	if t, err = k.locate(ctx); err != nil {
		return p, err
	}
	content := fmt.Sprint(p.record.Written, k.config.Desired())
	if err := k.inVain(t, p.record, k.tried == content, differs); err != nil {
		return p, err
	}
	load, err := k.loader(t)
	if err != nil {
		return p, err
	}
	k.log.Info("the container engine has not loaded its config", "engine", t.engine, "differs", differs, "mode", k.config.Reload)
	k.tried = content
	return p, k.await(ctx, t, load, func(ctx context.Context) bool {
		loaded, _, err := k.Loaded(ctx)
		return err == nil && loaded
	})
}

// inVain returns an error if the engine does not use the config, but should: it was started after
// the config was written, or, according to tried, the Keeper has already made it load this config.
func (k *Keeper) inVain(t target, rec record, tried bool, differs string) error {
	written := rec.Written != (moment{})
	switch restarted := written && t.process != nil && k.startedAfter(t.process, rec.Written); {
	case restarted, tried && (t.engine == Docker || !written):
		return fmt.Errorf("%s has read its config but does not use it: %s; it is not restarted again", t.engine, differs)
	case tried:
		return fmt.Errorf("%s was told to load its config, and still runs: %s: run systemctl restart %s", t.engine, differs, t.unit)
	default:
		return nil
	}
}

// reload makes the engine load its config, and waits until done returns true.
func (k *Keeper) reload(ctx context.Context, t target, done func(context.Context) bool) error {
	load, err := k.loader(t)
	if err != nil {
		return err
	}
	return k.await(ctx, t, load, done)
}

// await calls load, and waits until done returns true.
func (k *Keeper) await(ctx context.Context, t target, load func(context.Context) error, done func(context.Context) bool) error {
	if err := load(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	for pace.Pause(ctx, loadPause) {
		if done(ctx) {
			k.log.Info("the container engine has loaded its config", "engine", t.engine)
			return nil
		}
	}
	return fmt.Errorf("%s has not loaded its config within %s: see the log of %s", t.engine, loadLimit, t.unit)
}

// loader returns the function that makes the engine load its config. The function does not wait
// until the engine has loaded it. If a person has to make the engine load its config, loader
// returns an error.
func (k *Keeper) loader(t target) (func(context.Context) error, error) {
	switch k.config.reloadMode() {
	case None:
		return nil, fmt.Errorf("%s has not loaded its config, because the restart mode is none: run systemctl restart %s", t.engine, t.unit)
	case Systemd:
		verb := "restart"
		if t.engine == Docker {
			verb = "reload" // a restart may end the containers
		}
		systemctl := k.host.which("systemctl")
		if systemctl == "" {
			instead := Signal
			if t.engine == CRIO {
				instead = None
			}
			return nil, fmt.Errorf("restart %s: there is no systemctl on the host: use the restart mode %s", t.unit, instead)
		}
		return func(ctx context.Context) error {
			_, err := k.host.run(ctx, systemctl, "systemctl", verb, t.unit)
			return err
		}, nil
	default:
		if t.process == nil {
			return nil, fmt.Errorf("signal %s: %w", t.engine, cmp.Or(t.denied, ErrNotRunning))
		}
		// kill looks the ID up in the PID namespace of this process.
		if own, ok := (host{root: "/", proc: "/proc"}).process(t.process.pid); !ok || own.start != t.process.start {
			if now, ok := k.host.process(t.process.pid); ok && now.start == t.process.start {
				return nil, fmt.Errorf("signal %s: this process does not see process %d of the host: run it with the host's process IDs (hostPID), or use the restart mode systemd", t.engine, t.process.pid)
			}
		}
		return func(context.Context) error { return k.signal(t) }, nil
	}
}

// signal sends SIGHUP to the process of an engine.
func (k *Keeper) signal(t target) error {
	// The process may have ended, and another process may have its ID.
	if now, ok := k.host.process(t.process.pid); !ok || now.start != t.process.start {
		return nil
	}
	if err := unix.Kill(t.process.pid, unix.SIGHUP); err != nil {
		return fmt.Errorf("signal %s, process %d: %w", t.engine, t.process.pid, err)
	}
	return nil
}

// reloadMode returns the configured mode, or the default of the engine.
func (c Config) reloadMode() ReloadMode {
	switch {
	case c.Reload != "":
		return c.Reload
	case c.Engine == CRIO:
		return Systemd
	default:
		return Signal
	}
}
