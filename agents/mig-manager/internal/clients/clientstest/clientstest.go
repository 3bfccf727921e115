// Package clientstest is a stand-in for the systemd of a host, on a real bus of D-Bus.
package clientstest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

// The names of systemd on the bus (org.freedesktop.systemd1).
const (
	name    = "org.freedesktop.systemd1"
	manager = name + ".Manager"
	root    = "/org/freedesktop/systemd1"
)

// busConfig lets each connection do everything.
const busConfig = `<busconfig>
  <type>custom</type>
  <listen>unix:path=SOCKET</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>`

// Systemd has units, and notes the jobs for them.
type Systemd struct {
	// Socket is that of the bus.
	Socket string

	conn *dbus.Conn
	mu   sync.Mutex
	// active has the units that run.
	active map[string]bool
	// refused are units whose jobs fail.
	refused []string
	jobs    []string
}

// Start starts a systemd of which these units run. It skips the test on a machine without
// dbus-daemon.
func Start(t *testing.T, active ...string) *Systemd {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("this machine has no dbus-daemon")
	}
	dir := t.TempDir()
	s := &Systemd{Socket: filepath.Join(dir, "bus"), active: map[string]bool{}}
	for _, unit := range active {
		s.active[unit] = true
	}
	file := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(busConfig, "SOCKET", s.Socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), daemon, "--nofork", "--print-address", "--config-file="+file) //nolint:gosec // a test
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // its context has ended
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("wait for the bus: %v", err)
	}
	s.serve(t)
	return s
}

func (s *Systemd) serve(t *testing.T) {
	t.Helper()
	var err error
	if s.conn, err = dbus.Connect("unix:path=" + s.Socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	if err := s.conn.Export(s, root, manager); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.ExportSubtree(unit{s}, root+"/unit", "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	if reply, err := s.conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("own %s: %v, %v", name, reply, err)
	}
}

// Refuse makes the jobs of these units fail, and those of all others succeed.
func (s *Systemd) Refuse(units ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = units
}

// Jobs returns the jobs since the last call: "stop nvsm.service".
func (s *Systemd) Jobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := s.jobs
	s.jobs = nil
	return jobs
}

// StartUnit is that of org.freedesktop.systemd1.Manager.
func (s *Systemd) StartUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	return s.job("start", name, mode)
}

// StopUnit is that of org.freedesktop.systemd1.Manager.
func (s *Systemd) StopUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	return s.job("stop", name, mode)
}

func (s *Systemd) job(verb, name, mode string) (dbus.ObjectPath, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := verb + " " + name
	if mode != "replace" {
		text += " " + mode
	}
	s.jobs = append(s.jobs, text)
	result := "done"
	if slices.Contains(s.refused, name) {
		result = "failed"
	} else {
		s.active[name] = verb == "start"
	}
	path := dbus.ObjectPath(root + "/job/1")
	if err := s.conn.Emit(root, manager+".JobRemoved", uint32(1), path, name, result); err != nil {
		return "", dbus.MakeFailedError(err)
	}
	return path, nil
}

// unit answers for the properties of all units.
type unit struct{ of *Systemd }

// Get is that of org.freedesktop.DBus.Properties.
func (u unit) Get(msg dbus.Message, _, _ string) (dbus.Variant, *dbus.Error) {
	path, _ := msg.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	for name, active := range u.of.active {
		if strings.HasSuffix(string(path), "/"+strings.NewReplacer(".", "_2e", "-", "_2d").Replace(name)) && active {
			return dbus.MakeVariant("active"), nil
		}
	}
	return dbus.MakeVariant("inactive"), nil
}
