package clients_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/mig-manager/internal/clients"
	"outrigger.dev/agents/mig-manager/internal/clients/clientstest"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want []string
		// err lists parts of the error.
		err []string
	}{
		"a list":               {data: "version: v1\nsystemd-services: [nvsm.service, dcgm.service]", want: []string{"nvsm.service", "dcgm.service"}},
		"no units":             {data: "version: v1\nsystemd-services: []"},
		"no version":           {data: "systemd-services: [a.service]", err: []string{"version", "is missing"}},
		"another version":      {data: "version: v2", err: []string{"v2", "v1"}},
		"an unknown key":       {data: "version: v1\nservices: [a.service]", err: []string{"services"}},
		"a name without end":   {data: "version: v1\nsystemd-services: [nvsm]", err: []string{"f:2", "name of a unit"}},
		"a path":               {data: "version: v1\nsystemd-services: [../x.service]", err: []string{"name of a unit"}},
		"a target stops much":  {data: "version: v1\nsystemd-services: [multi-user.target]", err: []string{"name of a unit"}},
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

// host returns clients of a host on which nvsm and dcgm run, and nv_peer_mem does not.
func host(t *testing.T) (*clientstest.Systemd, clients.Config) {
	t.Helper()
	s := clientstest.Start(t, "nvsm.service", "nvidia-dcgm.service")
	return s, clients.Config{
		Host: clients.Systemd{Socket: s.Socket}, Units: []string{"nvsm.service", "nv_peer_mem.service", "nvidia-dcgm.service"},
		Journal: filepath.Join(t.TempDir(), "state", "clients.json"), BootID: "boot-1", Log: slog.New(slog.DiscardHandler),
	}
}

func want(t *testing.T, s *clientstest.Systemd, jobs ...string) {
	t.Helper()
	if diff := cmp.Diff(jobs, s.Jobs()); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestUnitsThatRunAreStoppedAndStartedAgain(t *testing.T) {
	s, cfg := host(t)
	c := clients.New(cfg)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "stop nvsm.service", "stop nvidia-dcgm.service")
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "start nvidia-dcgm.service", "start nvsm.service")
	if _, err := os.Lstat(cfg.Journal); err == nil {
		t.Error("the journal is left")
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s)
}

// TestAnotherProcessStartsThem: the one that stopped them was killed.
func TestAnotherProcessStartsThem(t *testing.T) {
	s, cfg := host(t)
	s.Refuse("nvidia-dcgm.service")
	if err := clients.New(cfg).Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "nvidia-dcgm.service") {
		t.Errorf("Stop() = %v, want an error that names the unit", err)
	}
	s.Refuse()
	want(t, s, "stop nvsm.service", "stop nvidia-dcgm.service")
	next := clients.New(cfg)
	if got, err := next.Stopped(); err != nil || len(got) != 2 {
		t.Fatalf("Stopped() = %v, %v", got, err)
	}
	if err := next.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "start nvidia-dcgm.service", "start nvsm.service")
}

func TestUnitThatDoesNotStartIsTriedAgain(t *testing.T) {
	s, cfg := host(t)
	c := clients.New(cfg)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Jobs()
	s.Refuse("nvsm.service")
	if err := c.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "systemctl status") {
		t.Errorf("Start() = %v", err)
	}
	want(t, s, "start nvidia-dcgm.service", "start nvsm.service")
	s.Refuse()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "start nvsm.service")
}

// TestBootStartsThem: systemd starts the units of a host itself.
func TestBootStartsThem(t *testing.T) {
	s, cfg := host(t)
	if err := clients.New(cfg).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Jobs()
	cfg.BootID = "boot-2"
	if err := clients.New(cfg).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s)
}

func TestReboot(t *testing.T) {
	s := clientstest.Start(t)
	if err := (clients.Systemd{Socket: s.Socket}).Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "start reboot.target replace-irreversibly")
}

func TestNoBus(t *testing.T) {
	err := clients.Systemd{Socket: filepath.Join(t.TempDir(), "bus")}.Stop(t.Context(), "nvsm.service")
	if err == nil || !strings.Contains(err.Error(), "/run/dbus") {
		t.Errorf("Stop() = %v, want the fix", err)
	}
}
