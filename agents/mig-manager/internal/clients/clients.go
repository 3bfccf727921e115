// Package clients stops the units of systemd on the host that use GPUs, before a GPU is reset,
// and starts them again: in any case, also in the next process if this one is killed.
package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outrigger.dev/pkg/hostfs"
)

// The limits of a job of systemd. They are those of NVIDIA's MIG manager.
const (
	stopLimit  = 30 * time.Second
	startLimit = 2 * time.Minute
)

// maxJournal bounds the journal.
const maxJournal = 1 << 20

// Host is the systemd of the host.
type Host interface {
	// Active reports whether a unit runs. It does not for a unit that does not exist.
	Active(ctx context.Context, unit string) (bool, error)
	// Stop and Start return once the unit is stopped or started.
	Stop(ctx context.Context, unit string) error
	Start(ctx context.Context, unit string) error
}

// Config describes the clients of a host.
type Config struct {
	Host Host
	// Units are those that use GPUs, in the order in which they are stopped.
	Units []string
	// Journal is the file with the units that have to be started again.
	Journal string
	// BootID identifies this boot: the host starts its units itself after a boot.
	BootID string
	Log    *slog.Logger
}

// Clients are the units of a host that use GPUs. Its methods are for one goroutine.
type Clients struct{ cfg Config }

// journal is the content of the file.
type journal struct {
	BootID string `json:"bootID"`
	// Stopped is in the order in which the units were stopped.
	Stopped []string `json:"stopped"`
}

// New returns the clients of a host.
func New(cfg Config) *Clients { return &Clients{cfg: cfg} }

// Stop stops the units that run. It notes each one in the journal before it touches it.
func (c *Clients) Stop(ctx context.Context) error {
	j, err := c.read()
	if err != nil {
		return err
	}
	for _, unit := range c.cfg.Units {
		active, err := c.cfg.Host.Active(ctx, unit)
		if err != nil {
			return fmt.Errorf("stop the clients of GPUs on the host: look whether %s runs: %w", unit, err)
		}
		if !active {
			continue
		}
		if !slices.Contains(j.Stopped, unit) {
			j.Stopped = append(j.Stopped, unit)
		}
		if err := c.write(j); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, stopLimit)
		err = c.cfg.Host.Stop(limited, unit)
		cancel()
		if err != nil {
			return fmt.Errorf("stop %s on the host: %w", unit, err)
		}
		c.cfg.Log.Info("unit of the host stopped, it is started again after the change", "unit", unit)
	}
	return nil
}

// Start starts all units that Stop has stopped, in the reverse order. Those that do not start
// stay in the journal, for the next call.
func (c *Clients) Start(ctx context.Context) error {
	j, err := c.read()
	if err != nil {
		return err
	}
	var errs []error
	left := slices.Clone(j.Stopped)
	for _, unit := range slices.Backward(j.Stopped) {
		limited, cancel := context.WithTimeout(ctx, startLimit)
		err := c.cfg.Host.Start(limited, unit)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("start %s on the host: %w", unit, err))
			continue
		}
		left = slices.DeleteFunc(left, func(u string) bool { return u == unit })
		c.cfg.Log.Info("unit of the host started again", "unit", unit)
	}
	if len(left) != len(j.Stopped) {
		errs = append(errs, c.write(journal{Stopped: left}))
	}
	return errors.Join(errs...)
}

// Stopped returns the units that have to be started again.
func (c *Clients) Stopped() ([]string, error) {
	j, err := c.read()
	return j.Stopped, err
}

// read returns the journal of this boot. That of another boot counts as empty.
func (c *Clients) read() (journal, error) {
	data, err := hostfs.ReadFile(c.cfg.Journal, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, nil
	}
	if err != nil {
		return journal{}, fmt.Errorf("read which units of the host are stopped: %w", err)
	}
	var j journal
	if err := json.Unmarshal(data, &j); err != nil {
		return journal{}, fmt.Errorf("read which units of the host are stopped: %s: %w: start them by hand, and remove the file", c.cfg.Journal, err)
	}
	if j.BootID != c.cfg.BootID {
		return journal{}, nil
	}
	return j, nil
}

// write replaces the journal; an empty one is removed.
func (c *Clients) write(j journal) error {
	if len(j.Stopped) == 0 {
		if err := os.Remove(c.cfg.Journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("note that the units of the host run again: %w", err)
		}
		return nil
	}
	j.BootID = c.cfg.BootID
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.cfg.Journal), 0o755); err != nil {
		return fmt.Errorf("note which units of the host are stopped: %w", err)
	}
	if err := hostfs.WriteFile(c.cfg.Journal, data, 0o644); err != nil {
		return fmt.Errorf("note which units of the host are stopped: %w", err)
	}
	return nil
}
