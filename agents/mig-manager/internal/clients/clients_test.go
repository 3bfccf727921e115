package clients_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/clients"
	"outrigger.dev/agents/mig-manager/internal/systemdtest"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want []string
		// err lists parts of the error.
		err []string
	}{
		"a list":               {data: "version: v1\nsystemd-services: [nvsm.service, dcgm.service]", want: []string{"nvsm.service", "dcgm.service"}},
		"instances, sockets":   {data: "version: v1\nsystemd-services: ['gpu@0.service', 'a-b_c.d:e\\x2df.socket']", want: []string{"gpu@0.service", `a-b_c.d:e\x2df.socket`}},
		"no units":             {data: "version: v1\nsystemd-services: []"},
		"no version":           {data: "systemd-services: [a.service]", err: []string{"version", "is missing"}},
		"another version":      {data: "version: v2", err: []string{"v2", "v1"}},
		"an unknown key":       {data: "version: v1\nservices: [a.service]", err: []string{"services"}},
		"a name without end":   {data: "version: v1\nsystemd-services: [nvsm]", err: []string{"f:2", "name of a service"}},
		"a path":               {data: "version: v1\nsystemd-services: [../x.service]", err: []string{"name of a service"}},
		"a target stops much":  {data: "version: v1\nsystemd-services: [multi-user.target]", err: []string{"name of a service"}},
		"a slice has all pods": {data: "version: v1\nsystemd-services: [kubepods.slice]", err: []string{"name of a service"}},
		"a file system":        {data: "version: v1\nsystemd-services: ['-.mount']", err: []string{"name of a service"}},
		"a template":           {data: "version: v1\nsystemd-services: [gpu@.service]", err: []string{"f:2", "gpu@.service", "instance"}},
		"an option":            {data: "version: v1\nsystemd-services: ['--force.service']", err: []string{"name of a service"}},
		"two words":            {data: "version: v1\nsystemd-services: ['a.service b.service']", err: []string{"name of a service"}},
		"a new line":           {data: "version: v1\nsystemd-services: [\"a\\n.service\"]", err: []string{"name of a service"}},
		"a name that is long":  {data: "version: v1\nsystemd-services: [" + strings.Repeat("a", 256) + ".service]", err: []string{"name of a service"}},
		"the bus that is used": {data: "version: v1\nsystemd-services: [dbus.service]", err: []string{"dbus.service", "bus"}},
		"a unit that is twice": {data: "version: v1\nsystemd-services: [a.service, a.service]", err: []string{"twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clients.Parse("f", []byte(tc.data))
			if (err != nil) != (tc.err != nil) {
				t.Fatalf("Parse() = %v, %v", got, err)
			}
			for _, part := range tc.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Parse() = %v, want %q in the error", err, part)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" && err == nil {
				t.Errorf("units (-want +got):\n%s", diff)
			}
		})
	}
}

// runs is a unit that runs until it is stopped. It notes when it starts and stops.
const runs = "[Service]\nExecStart=/bin/sleep 1000\nExecStartPre=/bin/sh -c 'echo start %n >>/run/jobs'\nExecStopPost=/bin/sh -c 'echo stop %n >>/run/jobs'\n"

// rig is a host with systemd, and clients on it.
type rig struct {
	*systemdtest.Host
	t   *testing.T
	cfg clients.Config
	log *bytes.Buffer
}

// newRig returns a host with units, of which those that are named run.
func newRig(t *testing.T, units map[string]string, running ...string) *rig {
	t.Helper()
	h := systemdtest.New(t)
	for name, text := range units {
		h.Unit(name, text)
	}
	h.Boot("")
	if len(running) > 0 {
		h.Must(append([]string{"systemctl", "start"}, running...)...)
	}
	log := &bytes.Buffer{}
	r := &rig{h, t, clients.Config{
		Host: clients.Systemd{Socket: filepath.Join(h.Root(), "run/dbus/system_bus_socket")}, Units: running,
		Journal: filepath.Join(t.TempDir(), "state", "clients.json"), BootID: "boot-1", Log: slog.New(slog.NewTextHandler(log, nil)),
	}, log}
	r.jobs()
	return r
}

// jobs returns what the units have noted since the last call.
func (r *rig) jobs() []string {
	r.t.Helper()
	path := filepath.Join(r.Root(), "run/jobs")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	assert.NilError(r.t, os.RemoveAll(path))
	var jobs []string
	for line := range strings.Lines(string(data)) {
		jobs = append(jobs, strings.TrimSpace(line))
	}
	return jobs
}

func (r *rig) stop() {
	r.t.Helper()
	assert.NilError(r.t, clients.New(r.cfg).Stop(r.t.Context()))
}

func (r *rig) start() {
	r.t.Helper()
	assert.NilError(r.t, clients.New(r.cfg).Start(r.t.Context()))
	if _, err := os.Lstat(r.cfg.Journal); err == nil {
		r.t.Error("the journal is left")
	}
}

// are checks the state of units.
func (r *rig) are(state string, units ...string) {
	r.t.Helper()
	for _, u := range units {
		if got := r.State(u); got != state {
			r.t.Errorf("%s is %s, want %s", u, got, state)
		}
	}
}

// until waits for the state of a unit.
func (r *rig) until(state, unit string) {
	r.t.Helper()
	agenttest.Poll(r.t, unit+" to be "+state, func() bool { return r.State(unit) == state })
}

func (r *rig) want(jobs ...string) {
	r.t.Helper()
	if diff := cmp.Diff(jobs, r.jobs()); diff != "" {
		r.t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestUnitsThatRunAreStoppedAndStartedAgain(t *testing.T) {
	r := newRig(t, map[string]string{"nvsm.service": runs, "dcgm.service": runs, "off.service": runs}, "nvsm.service", "dcgm.service")
	r.cfg.Units = []string{"nvsm.service", "off.service", "missing.service", "dcgm.service"}
	r.stop()
	r.want("stop nvsm.service", "stop dcgm.service")
	r.start()
	r.want("start dcgm.service", "start nvsm.service")
	r.are("active", "nvsm.service", "dcgm.service")
	r.are("inactive", "off.service")
	r.start()
	r.want()
}

// TestUnitsThatSystemdStopsToo has units that depend on one that is stopped, listed and not listed.
func TestUnitsThatSystemdStopsToo(t *testing.T) {
	r := newRig(t, map[string]string{
		"nvsm.service":  runs,
		"api.service":   "[Unit]\nRequires=nvsm.service\nAfter=nvsm.service\n" + runs,
		"bound.service": "[Unit]\nBindsTo=api.service\nAfter=api.service\n" + runs,
		"group.target":  "[Unit]\nRequires=nvsm.service\nWants=stopped.service\n",
		"part.service":  "[Unit]\nPartOf=group.target\n" + runs,
		// It does not run when nvsm is stopped, and must not after it.
		"stopped.service": "[Unit]\nPartOf=nvsm.service\n" + runs,
	}, "nvsm.service", "api.service", "bound.service", "group.target", "part.service")
	r.Must("systemctl", "stop", "stopped.service")
	r.jobs()
	r.cfg.Units = []string{"nvsm.service", "api.service"}
	r.stop()
	r.are("inactive", "nvsm.service", "api.service", "bound.service", "part.service")
	r.start()
	r.are("active", "nvsm.service", "api.service", "bound.service", "part.service")
	r.are("inactive", "stopped.service")
}

// TestUnitsThatStartAgain has units that something starts again when they are stopped.
func TestUnitsThatStartAgain(t *testing.T) {
	r := newRig(t, map[string]string{
		"always.service": runs + "Restart=always\nRestartSec=0\n",
		"dcgm.socket":    "[Socket]\nListenStream=/run/dcgm.sock\n",
		"dcgm.service":   runs,
		"poll.timer":     "[Timer]\nOnUnitInactiveSec=100ms\nAccuracySec=1ms\n",
		"poll.service":   runs,
	}, "always.service", "dcgm.socket", "dcgm.service", "poll.timer", "poll.service")
	r.cfg.Units = []string{"always.service", "dcgm.service", "poll.service"}
	r.stop()
	<-time.After(300 * time.Millisecond) // longer than what would start them
	r.are("inactive", "always.service", "dcgm.service", "dcgm.socket", "poll.service", "poll.timer")
	r.start()
	r.are("active", "always.service", "dcgm.service", "dcgm.socket", "poll.service", "poll.timer")
}

func TestNamesOfOneUnit(t *testing.T) {
	r := newRig(t, map[string]string{"nvidia-dcgm.service": runs + "[Install]\nAlias=dcgm.service\n", "gpu@.service": runs}, "nvidia-dcgm.service", "gpu@0.service")
	r.Must("systemctl", "enable", "nvidia-dcgm.service")
	r.cfg.Units = []string{"nvidia-dcgm.service", "dcgm.service", "gpu@0.service"}
	r.stop()
	r.want("stop nvidia-dcgm.service", "stop gpu@0.service")
	r.start()
	r.want("start gpu@0.service", "start nvidia-dcgm.service")
}

// TestUnitThatDoesNotStop: it is ended, and then it runs again.
func TestUnitThatDoesNotStop(t *testing.T) {
	r := newRig(t, map[string]string{
		"nvsm.service":  runs,
		"stuck.service": "[Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'\nTimeoutStopSec=2\n",
	}, "nvsm.service", "stuck.service")
	ctx, end := context.WithCancelCause(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- clients.New(r.cfg).Stop(ctx) }()
	r.until("deactivating", "stuck.service")
	end(errors.New("not in 30s"))
	assert.Error(t, <-stopped, "stop stuck.service on the host: systemd does not end the job: not in 30s: see systemctl status on the host")
	r.start()
	r.are("active", "nvsm.service", "stuck.service")
}

func TestUnitThatRefusesToStop(t *testing.T) {
	r := newRig(t, map[string]string{"nvsm.service": runs, "fixed.service": "[Unit]\nRefuseManualStop=yes\n" + runs}, "nvsm.service", "fixed.service")
	if err := clients.New(r.cfg).Stop(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "stop fixed.service on the host: Operation refused") {
		t.Errorf("Stop() = %v", err)
	}
	r.start()
	r.are("active", "nvsm.service", "fixed.service")
}

func TestUnitThatDoesNotStartIsTriedAgain(t *testing.T) {
	r := newRig(t, map[string]string{"dcgm.service": runs, "nvsm.service": runs + "Type=oneshot\nRemainAfterExit=yes\nExecStart=\nExecStart=/bin/test ! -e /run/broken\n"}, "nvsm.service", "dcgm.service")
	r.stop()
	broken := filepath.Join(r.Root(), "run/broken")
	assert.NilError(t, os.WriteFile(broken, nil, 0o600))
	c := clients.New(r.cfg)
	err := c.Start(t.Context())
	assert.Error(t, err, `start nvsm.service on the host: the job of systemd ended with "failed": see systemctl status on the host`)
	r.are("active", "dcgm.service")
	if got, err := os.ReadFile(r.cfg.Journal); err != nil || !strings.Contains(string(got), "nvsm.service") || strings.Contains(string(got), "dcgm.service") {
		t.Errorf("the journal has %s, %v", got, err)
	}
	assert.NilError(t, os.Remove(broken))
	r.start()
	r.are("active", "nvsm.service")
}

// TestUnitThatIsMaskedOrRemoved cannot be started any more: nobody waits for that.
func TestUnitThatIsMaskedOrRemoved(t *testing.T) {
	r := newRig(t, map[string]string{"masked.service": runs, "removed.service": runs, "nvsm.service": runs}, "masked.service", "removed.service", "nvsm.service")
	r.stop()
	r.jobs()
	r.Must("sh", "-c", "cd /etc/systemd/system; ln -sf /dev/null masked.service; rm removed.service; systemctl daemon-reload")
	r.start()
	r.want("start nvsm.service")
	for _, want := range []string{"unit=masked.service load=masked", "unit=removed.service load=not-found"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log)
		}
	}
}

// The variables of TestMain.
const (
	socketKey  = "TEST_SOCKET"
	journalKey = "TEST_JOURNAL"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(socketKey); socket != "" {
		_ = clients.New(clients.Config{
			Host: clients.Systemd{Socket: socket}, Units: []string{"nvsm.service", "slow.service"},
			Journal: os.Getenv(journalKey), BootID: "boot-1", Log: slog.New(slog.DiscardHandler),
		}).Stop(context.Background())
		return
	}
	os.Exit(m.Run())
}

// TestAnotherProcessStartsThem: the one that stopped them was killed.
func TestAnotherProcessStartsThem(t *testing.T) {
	r := newRig(t, map[string]string{
		"nvsm.service": runs, "api.service": "[Unit]\nBindsTo=nvsm.service\nAfter=nvsm.service\n" + runs,
		"slow.service": runs + "ExecStop=/bin/sleep 1\n",
	}, "nvsm.service", "slow.service", "api.service")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), socketKey+"="+r.cfg.Host.Socket, journalKey+"="+r.cfg.Journal)
	assert.NilError(t, cmd.Start())
	r.until("deactivating", "slow.service")
	assert.NilError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	r.are("inactive", "nvsm.service", "api.service")
	r.start()
	r.are("active", "nvsm.service", "api.service", "slow.service")
}

// TestBootStartsThem: systemd starts the units of a host itself.
func TestBootStartsThem(t *testing.T) {
	r := newRig(t, map[string]string{"nvsm.service": runs}, "nvsm.service")
	r.stop()
	r.jobs()
	r.cfg.BootID = "boot-2"
	assert.NilError(t, clients.New(r.cfg).Start(t.Context()))
	r.want()
}

// TestReboot has a target that reboots nothing.
func TestReboot(t *testing.T) {
	r := newRig(t, map[string]string{"reboot.target": "[Unit]\nRequires=marker.service\nAfter=marker.service\n", "marker.service": runs})
	assert.NilError(t, r.cfg.Host.Reboot(t.Context()))
	r.until("active", "reboot.target")
	r.want("start marker.service")
}

func TestNoBus(t *testing.T) {
	cfg := clients.Config{Host: clients.Systemd{Socket: filepath.Join(t.TempDir(), "bus")}, Units: []string{"nvsm.service"}, Journal: filepath.Join(t.TempDir(), "j"), Log: slog.New(slog.DiscardHandler)}
	assert.ErrorContains(t, clients.New(cfg).Stop(t.Context()), "/run/dbus")
}
