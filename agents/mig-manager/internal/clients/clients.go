// Package clients stops the host's systemd units that use GPUs before a GPU is reset, and starts them
// again. If this process is killed, the next process starts them.
package clients

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"outrigger.dev/pkg/hostfs"
)

// The time limits of a systemd job. They are the limits of NVIDIA's MIG manager.
const (
	stopLimit  = 30 * time.Second
	startLimit = 2 * time.Minute
)

// maxJournal is the largest size of the journal, in bytes.
const maxJournal = 1 << 20

// Config describes the clients of a host.
type Config struct {
	Host Systemd
	// Units are the units that use GPUs. They are stopped in this order.
	Units []string
	// Journal is the path of the file with the units to start again.
	Journal string
	// BootID identifies the current boot. After a reboot, the host starts its units itself.
	BootID string
	Log    *slog.Logger
}

// Clients manages the units of a host that use GPUs. It is not safe for concurrent use.
type Clients struct{ cfg Config }

// journal is the content of the journal file.
type journal struct {
	BootID string `json:"bootID"`
	// Stopped lists the stopped units. They are started in reverse order.
	Stopped []string `json:"stopped"`
}

// add adds units that the journal does not have.
func (j *journal) add(units []string) {
	for _, u := range units {
		if !slices.Contains(j.Stopped, u) {
			j.Stopped = append(j.Stopped, u)
		}
	}
}

// New returns the clients of a host.
func New(cfg Config) *Clients { return &Clients{cfg: cfg} }

// Stop stops the running units, and the sockets, timers and paths that would start them again. Before
// it stops a unit, it records the unit in the journal, and all units that systemd stops together with
// it.
func (c *Clients) Stop(ctx context.Context) error {
	j, err := c.read()
	if err != nil {
		return err
	}
	var stops []string
	for _, name := range c.cfg.Units {
		u, err := c.cfg.Host.unit(ctx, name)
		if err != nil {
			return fmt.Errorf("stop the GPU clients on the host: read the state of %s: %w", name, err)
		}
		if !u.active {
			c.cfg.Log.Debug("unit of the host is not running, leaving it stopped", "unit", name, "load", u.load, "state", u.state)
			continue
		}
		triggers, err := c.cfg.Host.running(ctx, u.triggers)
		if err != nil {
			return fmt.Errorf("stop the GPU clients on the host: find the units that start %s: %w", name, err)
		}
		// A socket does not start while its service runs, and Start starts the units in reverse
		// order. So the socket comes after its service here.
		affected, err := c.cfg.Host.stoppedWith(ctx, append([]string{u.name}, triggers...))
		if err != nil {
			return fmt.Errorf("stop the GPU clients on the host: find the units that stop together with %s: %w", name, err)
		}
		stops = append(append(stops, triggers...), u.name)
		j.add(affected)
	}
	if len(stops) == 0 {
		return nil
	}
	if err := c.write(j); err != nil {
		return err
	}
	for _, unit := range stops {
		if err := c.stop(ctx, unit); err != nil {
			return err
		}
	}
	return nil
}

func (c *Clients) stop(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit, fmt.Errorf("not in %s", stopLimit))
	defer cancel()
	if err := c.cfg.Host.Stop(ctx, unit); err != nil {
		return fmt.Errorf("stop %s on the host: %w", unit, err)
	}
	c.cfg.Log.Info("stopped unit of the host, starting it again after the change", "unit", unit)
	return nil
}

// Start starts all units that Stop has stopped, in reverse order. Units that do not start stay in the
// journal for the next call, except units that are masked or removed.
func (c *Clients) Start(ctx context.Context) error {
	j, err := c.read()
	if err != nil {
		return err
	}
	var errs []error
	left := slices.Clone(j.Stopped)
	for _, unit := range slices.Backward(j.Stopped) {
		err := c.start(ctx, unit)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		left = slices.DeleteFunc(left, func(u string) bool { return u == unit })
	}
	if len(left) != len(j.Stopped) {
		errs = append(errs, c.write(journal{Stopped: left}))
	}
	return errors.Join(errs...)
}

func (c *Clients) start(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not in %s", startLimit))
	defer cancel()
	err := c.cfg.Host.Start(ctx, unit)
	if err == nil {
		c.cfg.Log.Info("started unit of the host again", "unit", unit)
		return nil
	}
	if u, known := c.cfg.Host.unit(ctx, unit); known == nil && (u.load == masked || u.load == notFound) {
		c.cfg.Log.Warn("unit of the host was masked or removed meanwhile, not starting it again", "unit", unit, "load", u.load)
		return nil
	}
	return fmt.Errorf("start %s on the host: %w", unit, err)
}

// read returns the journal of this boot. A journal of another boot counts as empty.
func (c *Clients) read() (journal, error) {
	j, err := hostfs.ReadJSON[journal](c.cfg.Journal, maxJournal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return journal{}, nil
	case err != nil:
		return journal{}, fmt.Errorf("read the record of stopped units of the host: %s: %w: start the units by hand, and remove the file", c.cfg.Journal, err)
	case j.BootID != c.cfg.BootID:
		return journal{}, nil
	}
	return j, nil
}

// write writes the file of the journal. If j is empty, it removes the file.
func (c *Clients) write(j journal) error {
	if len(j.Stopped) == 0 {
		if err := os.Remove(c.cfg.Journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the record of stopped units of the host: %w", err)
		}
		return nil
	}
	j.BootID = c.cfg.BootID
	if err := hostfs.WriteJSON(c.cfg.Journal, j, 0o644); err != nil {
		return fmt.Errorf("record the stopped units of the host: %w", err)
	}
	return nil
}
