package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
)

// Live is the loaded config of a running engine.
type Live struct {
	// Programs maps the names of runtimes to their programs.
	Programs map[string]string
	// Default is the name of the default runtime.
	Default string
	// CDI is false if the engine reports that CDI is off.
	CDI bool
}

// Ask returns the loaded config of the engine that listens on a socket. See package live.
type Ask func(ctx context.Context, engine Name, socket string) (Live, error)

// missing describes the first desired setting that the engine has not loaded, or returns "".
func (l Live) missing(d Desired) string {
	for _, r := range d.Runtimes {
		if l.Programs[r.Name] != r.Path {
			return fmt.Sprintf("the program of the runtime %s is %q, not %s", r.Name, l.Programs[r.Name], r.Path)
		}
	}
	if d.Default != "" && l.Default != d.Default {
		return fmt.Sprintf("the default runtime is %q, not %s", l.Default, d.Default)
	}
	if d.CDI && !l.CDI {
		return "CDI is off"
	}
	return ""
}

// hasAny reports whether an engine has loaded one of the runtimes, or the default runtime.
func (l Live) hasAny(d Desired) bool {
	for _, r := range d.Runtimes {
		if l.Programs[r.Name] == r.Path {
			return true
		}
	}
	return d.Default != "" && l.Default == d.Default
}

// errCannotAsk means that the Config has no function to ask an engine.
var errCannotAsk = errors.New("this program does not query engines")

// ask returns the loaded config of the running engine.
func (k *Keeper) ask(ctx context.Context, t target) (Live, error) {
	if k.config.Ask == nil {
		return Live{}, errCannotAsk
	}
	socket, err := k.socket(t)
	if err != nil {
		return Live{}, err
	}
	l, err := k.config.Ask(ctx, t.engine, socket)
	if err != nil {
		return Live{}, fmt.Errorf("ask %s at %s for its configuration: %w", t.engine, t.socket, err)
	}
	return l, nil
}

// socket returns the path of the engine's socket for this process. If the folder of the socket was
// mounted after this process got its mount of the host's root, that mount does not show the
// socket. The root of the engine's process does.
func (k *Keeper) socket(t target) (string, error) {
	real, err := k.host.path(t.socket)
	if err == nil && exists(real) {
		return real, nil
	}
	if t.process != nil {
		h := host{root: filepath.Join(k.host.proc, strconv.Itoa(t.process.pid), "root")}
		if real, err := h.path(t.socket); err == nil && exists(real) {
			return real, nil
		}
	}
	return real, err
}
