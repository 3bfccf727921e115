package clients

import (
	"context"
	"fmt"
	"os"
	"strconv"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Systemd is the systemd that answers on a socket of D-Bus. It connects for each call: calls are
// seldom, and the host may restart its bus.
type Systemd struct {
	// Socket is where this process sees the host's /run/dbus/system_bus_socket.
	Socket string
}

var _ Host = Systemd{}

// The states of a unit (org.freedesktop.systemd1, property ActiveState) in which it runs, or is
// about to.
const (
	active     = "active"
	activating = "activating"
	reloading  = "reloading"
)

// Active reports whether a unit runs.
func (s Systemd) Active(ctx context.Context, unit string) (bool, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	p, err := conn.GetUnitPropertyContext(ctx, unit, "ActiveState")
	if err != nil {
		return false, err
	}
	state, _ := p.Value.Value().(string)
	return state == active || state == activating || state == reloading, nil
}

// Stop stops a unit, and waits until it is stopped.
func (s Systemd) Stop(ctx context.Context, unit string) error {
	return s.job(ctx, func(conn *systemd.Conn, done chan<- string) error {
		_, err := conn.StopUnitContext(ctx, unit, "replace", done)
		return err
	})
}

// Start starts a unit, and waits until it is started.
func (s Systemd) Start(ctx context.Context, unit string) error {
	return s.job(ctx, func(conn *systemd.Conn, done chan<- string) error {
		_, err := conn.StartUnitContext(ctx, unit, "replace", done)
		return err
	})
}

// Reboot reboots the host in order: it stops all units first.
func (s Systemd) Reboot(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// As systemctl reboot does. The method Reboot of systemd's manager stops nothing.
	if _, err := conn.StartUnitContext(ctx, "reboot.target", "replace-irreversibly", nil); err != nil {
		return fmt.Errorf("reboot the host: %w", err)
	}
	return nil
}

// job runs a job of systemd, and waits for its end.
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
		return fmt.Errorf("systemd does not end the job: %w", context.Cause(ctx))
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
		// The library can look up the name of the user, which is not needed.
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
	if err != nil {
		return nil, fmt.Errorf("connect to systemd of the host at %s: %w: mount the host's /run/dbus, or set --with-shutdown-host-gpu-clients=false", s.Socket, err)
	}
	return conn, nil
}
