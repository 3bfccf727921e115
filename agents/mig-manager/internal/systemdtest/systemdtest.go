// Package systemdtest boots this machine's systemd in separate namespaces, with a message bus. A boot
// takes less than a second. Units see the file systems of the machine or of a simulated node, with
// private folders at /run and /var/lib.
package systemdtest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
)

//go:embed boot.sh
var boot string

// The units of the message bus.
const (
	busSocket  = "[Socket]\nListenStream=/run/dbus/system_bus_socket\n"
	busService = "[Unit]\nRequires=dbus.socket\n[Service]\nExecStart=/usr/bin/dbus-daemon --config-file=/run/bus.conf --nofork --nopidfile\n"
)

// busConfig allows what the bus of a host allows: replies, and the calls that the policy of an
// installed package allows.
const busConfig = `<busconfig>
  <type>system</type>
  <listen>systemd:</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/><allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
  </policy>
  <includedir>/usr/share/dbus-1/system.d</includedir>
</busconfig>
`

// Host is a host whose first process is systemd.
type Host struct {
	t testing.TB
	// folder has the units, /run and /var/lib.
	folder string
	enter  []string
	end    func()
	pid    int
	// console has the output of systemd.
	console *console
}

// New returns a host that has not booted yet. It skips the test if systemd is not installed or cannot
// be booted. before is the prefix of each command of the host, for example to enter a simulated node.
func New(t testing.TB, before ...string) *Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can boot systemd")
	}
	for _, program := range []string{"/usr/lib/systemd/systemd", "/usr/bin/dbus-daemon", "/usr/bin/unshare", "/usr/bin/nsenter"} {
		if _, err := os.Stat(program); err != nil {
			t.Skipf("this machine has no %s", program)
		}
	}
	folder, err := os.MkdirTemp("", "systemd") //nolint:usetesting // the path of a socket must not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	h := &Host{t: t, folder: folder, enter: before}
	for _, dir := range []string{"run", "var", "etc", "lib"} {
		if err := os.Mkdir(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"basic", "local-fs", "multi-user", "paths", "shutdown", "slices", "sockets", "swap", "sysinit", "timers", "umount"} {
		name := target + ".target"
		text, err := os.ReadFile(filepath.Join("/usr/lib/systemd/system", name))
		if err != nil {
			t.Fatal(err)
		}
		h.write("lib/"+name, string(text))
	}
	h.write("lib/dbus.socket", busSocket)
	h.write("lib/dbus.service", busService)
	h.write("lib/service.d/log.conf", "[Service]\nStandardOutput=append:/run/log-%n\nStandardError=append:/run/log-%n\n")
	h.write("boot.sh", boot)
	link := filepath.Join(folder, "lib/multi-user.target.wants/dbus.service")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dbus.service", link); err != nil {
		t.Fatal(err)
	}
	return h
}

// Unit writes a unit of the administrator, or a drop-in: "x.service", "x.service.d/y.conf".
func (h *Host) Unit(name, text string) {
	h.t.Helper()
	h.write("etc/"+name, text)
}

func (h *Host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// Root returns a folder with the host's run/dbus.
func (h *Host) Root() string { return h.folder }

// Log returns the output of a unit since the boot.
func (h *Host) Log(unit string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.folder, "run/log-"+unit))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	return string(text)
}

// Boot runs a shell command on the host, boots it, and waits until all units have started. The host
// ends with the test, or with a call of End.
func (h *Host) Boot(prepare string) {
	h.t.Helper()
	h.write("run/bus.conf", busConfig)
	group := cgroup(h.t)
	// The process must be in a separate cgroup before it enters a cgroup namespace.
	script := `echo $$ >"$1/cgroup.procs" && shift && exec "$@"`
	args := append([]string{"-c", script, "sh", group}, h.enter...)
	args = append(args, "unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup", "--", "/bin/sh", filepath.Join(h.folder, "boot.sh"), h.folder, prepare)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	cmd := exec.CommandContext(ctx, "/bin/sh", args...) //nolint:gosec // a test
	h.console = &console{}
	cmd.Stdout, cmd.Stderr = h.console, h.console
	if err := cmd.Start(); err != nil {
		cancel()
		h.t.Fatal(err)
	}
	h.end = sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait()
		h.removeGroup(group)
	})
	h.t.Cleanup(h.end)
	h.pid = h.firstProcess(cmd.Process.Pid)
	h.wait()
}

// End ends the host immediately, like a power failure. The content of /run is lost.
func (h *Host) End() {
	h.end()
	run := filepath.Join(h.folder, "run")
	if err := errors.Join(os.RemoveAll(run), os.Mkdir(run, 0o755)); err != nil {
		h.t.Fatal(err)
	}
}

// Command returns a command that runs on the host.
func (h *Host) Command(args ...string) *exec.Cmd {
	enter := []string{"--target=" + strconv.Itoa(h.pid), "--mount", "--pid", "--ipc", "--uts", "--"}
	return exec.CommandContext(h.t.Context(), "nsenter", append(enter, args...)...) //nolint:gosec // a test
}

// Run runs a command on the host, and returns its output.
func (h *Host) Run(args ...string) (string, error) {
	out, err := h.Command(args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Must is Run for a command that must succeed.
func (h *Host) Must(args ...string) string {
	h.t.Helper()
	out, err := h.Run(args...)
	if err != nil {
		h.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

// State returns the ActiveState of a unit.
func (h *Host) State(unit string) string {
	h.t.Helper()
	return h.Must("systemctl", "show", "--property=ActiveState", "--value", unit)
}

// firstProcess returns the process that is the first in its namespace: the child of unshare.
func (h *Host) firstProcess(of int) int {
	h.t.Helper()
	var pid string
	agenttest.Poll(h.t, "systemd to start", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", of, of))
		if err != nil {
			return false
		}
		pid = strings.TrimSpace(string(children))
		// A process that enters a simulated node also has children.
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		return err == nil && pid != "" && strings.Contains(string(status), "\nNSpid:\t"+pid+"\t1\n")
	})
	first, err := strconv.Atoi(pid)
	if err != nil {
		h.t.Fatal(err)
	}
	return first
}

// wait waits until the boot has finished, and systemd is on the message bus. Programs on the host itself reach
// systemd without the bus.
func (h *Host) wait() {
	h.t.Helper()
	over := false
	defer func() {
		if !over {
			h.t.Logf("systemd printed:\n%s", h.console)
		}
	}()
	agenttest.Poll(h.t, "the end of the boot", func() bool {
		state, _ := h.Run("systemctl", "is-system-running")
		over = state == "running" || state == "degraded"
		if !over {
			return false
		}
		_, err := h.Run("busctl", "status", "org.freedesktop.systemd1")
		return err == nil
	})
}

// console records the output of systemd.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the output.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

// String returns the output.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}
