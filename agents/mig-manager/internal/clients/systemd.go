package clients

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Systemd is the systemd behind a D-Bus socket. It connects for each call, because calls are rare and
// the host may restart its bus.
type Systemd struct {
	// Socket is the host's /run/dbus/system_bus_socket, as a path of this process.
	Socket string
}

// The states of a unit that runs or is about to run (org.freedesktop.systemd1, property ActiveState).
const (
	active     = "active"
	activating = "activating"
	reloading  = "reloading"
)

// The states of units that cannot be started (property LoadState).
const (
	masked   = "masked"
	notFound = "not-found"
)

// unit has the properties of a unit.
type unit struct {
	// name is the unit's main name. The requested name can be an alias.
	name string
	// load and state are its LoadState and ActiveState.
	load, state string
	active      bool
	// triggers are the units that start it, such as sockets.
	triggers []string
	// dependents are the units that systemd stops together with the unit.
	dependents []string
}

// unit returns the properties of a unit. It returns an error for an invalid name, but not for a unit
// that does not exist.
func (s Systemd) unit(ctx context.Context, name string) (unit, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return unit{}, err
	}
	defer conn.Close()
	p, err := conn.GetUnitPropertiesContext(ctx, name)
	if err != nil {
		return unit{}, err
	}
	u := unit{name: name}
	if id, _ := p["Id"].(string); id != "" {
		u.name = id
	}
	u.load, _ = p["LoadState"].(string)
	u.state, _ = p["ActiveState"].(string)
	u.active = u.state == active || u.state == activating || u.state == reloading
	u.triggers, _ = p["TriggeredBy"].([]string)
	for _, with := range []string{"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf"} {
		names, _ := p[with].([]string)
		u.dependents = append(u.dependents, names...)
	}
	return u, nil
}

// running returns the units that run.
func (s Systemd) running(ctx context.Context, units []string) ([]string, error) {
	var out []string
	for _, name := range units {
		u, err := s.unit(ctx, name)
		if err != nil {
			return nil, err
		}
		if u.active && !slices.Contains(out, u.name) {
			out = append(out, u.name)
		}
	}
	return out, nil
}

// stoppedWith returns the running units that systemd stops together with units, dependents first. It
// does not return targets: they run no program, and starting a target would also start units that a
// user has stopped.
func (s Systemd) stoppedWith(ctx context.Context, units []string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		u, err := s.unit(ctx, name)
		if err != nil || !u.active {
			return err
		}
		for _, d := range u.dependents {
			if err := visit(d); err != nil {
				return err
			}
		}
		if !strings.HasSuffix(u.name, ".target") {
			out = append(out, u.name)
		}
		return nil
	}
	for _, name := range units {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Stop stops a unit, and waits until it has stopped.
func (s Systemd) Stop(ctx context.Context, unit string) error {
	return s.job(ctx, func(conn *systemd.Conn, done chan<- string) error {
		_, err := conn.StopUnitContext(ctx, unit, "replace", done)
		return err
	})
}

// Start starts a unit, and waits until it has started.
func (s Systemd) Start(ctx context.Context, unit string) error {
	return s.job(ctx, func(conn *systemd.Conn, done chan<- string) error {
		_, err := conn.StartUnitContext(ctx, unit, "replace", done)
		return err
	})
}

// Reboot reboots the host. It stops all units first.
func (s Systemd) Reboot(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// systemctl reboot does the same. The method Reboot of systemd's manager does not stop units.
	if _, err := conn.StartUnitContext(ctx, "reboot.target", "replace-irreversibly", nil); err != nil {
		return fmt.Errorf("reboot the host: %w", err)
	}
	return nil
}

// job starts a systemd job, and waits until it ends.
func (s Systemd) job(ctx context.Context, run func(*systemd.Conn, chan<- string) error) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan string, 1)
	if err := run(conn, done); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("systemd does not end the job: %w: see systemctl status on the host", context.Cause(ctx))
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("the job of systemd ended with %q: see systemctl status on the host", result)
		}
		return nil
	}
}

func (s Systemd) connect(ctx context.Context) (*systemd.Conn, error) {
	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) {
		conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(s.Socket), dbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		// The default authentication looks up the user's name, which is not needed.
		if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
			_ = conn.Close()
			return nil, err
		}
		if err := conn.Hello(); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("connect to systemd of the host at %s: %w", s.Socket, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("connect to systemd of the host at %s: %w: mount the host's /run/dbus, or set --with-shutdown-host-gpu-clients=false", s.Socket, err)
	}
	return conn, nil
}
