package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/clients"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

func profile(t *testing.T, text string) gpu.Profile {
	t.Helper()
	p, err := gpu.ParseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// board returns GPUs of a product that is known, with its board.
func board(t *testing.T, count int) []mig.GPU {
	t.Helper()
	pci := gpu.PCI{DeviceID: 0x233010de}
	known, ok := knownBoard(pci, 80<<30)
	if !ok {
		t.Fatal("an H100 is not known")
	}
	var out []mig.GPU
	for i := range count {
		out = append(out, mig.GPU{Index: i, UUID: gpu.UUID([]string{"GPU-0", "GPU-1"}[i]), Name: "H100", PCI: pci, Capable: true, Board: known})
	}
	return out
}

func TestSelectedMergesGeneratedConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "version: v1\nmig-configs:\n" +
		"  team: [{devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 2}}]\n" +
		"  all-balanced: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, gpus := newConfigs("", file, slog.New(slog.DiscardHandler)), board(t, 2)
	for name, want := range map[string]manager.Wish{
		"team":         {"GPU-1": {Enabled: true, Devices: map[gpu.Profile]int{profile(t, "3g.40gb"): 2}}},
		"all-disabled": {"GPU-0": {}, "GPU-1": {}},
		"all-balanced": {
			"GPU-0": {Enabled: true, Devices: map[gpu.Profile]int{profile(t, "7g.80gb"): 1}},
			"GPU-1": {Enabled: true, Devices: map[gpu.Profile]int{profile(t, "7g.80gb"): 1}},
		},
	} {
		got, err := f.selected(name, gpus)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	_, err := f.selected("nonsense", gpus)
	if err == nil || !strings.Contains(err.Error(), "all-balanced, team, all-1g.10gb,") {
		t.Errorf("selected(nonsense) = %v, want the names of the user first", err)
	}
	gpus[1].Fault = &gpu.Fault{Op: "nvmlDeviceGetMigMode", Reason: "GPU is lost"}
	got, err := f.selected("all-disabled", gpus)
	if err == nil || len(got) != 1 {
		t.Errorf("selected() = %v, %v, want what the other GPU shall have, and why one lacks", got, err)
	}
}

func TestChangeOf(t *testing.T) {
	layout := mig.Layout{
		{ID: 2, Profile: profile(t, "3g.40gb"), Placement: gpu.Placement{Start: 4, Size: 4}, Compute: []mig.Compute{{ID: 1, Slices: 3, Placement: gpu.Placement{Size: 3}}}},
		{ID: 9, Profile: profile(t, "1g.10gb"), Placement: gpu.Placement{Start: 0, Size: 1}, Compute: []mig.Compute{{ID: 0, Slices: 1, Placement: gpu.Placement{Size: 1}}}},
	}
	g := mig.GPU{Index: 3, UUID: "GPU-3", State: mig.State{Enabled: true, Layout: layout}}
	got := changeOf(apply.Plan{GPUs: []apply.Change{
		{GPU: mig.GPU{UUID: "GPU-0"}},
		{
			GPU: g,
			Steps: []mig.Step{
				{Op: mig.DestroyCompute, Profile: layout[0].Profile, Placement: layout[0].Placement, Compute: layout[0].Compute[0]},
				{Op: mig.DestroyInstance, Profile: layout[0].Profile, Placement: layout[0].Placement},
			},
			Holders: []apply.Holder{{Process: procowner.Process{PID: 42, Owner: procowner.Owner{Unit: "nvsm.service"}}, GPUInstance: 2}},
		},
	}})
	want := manager.Change{
		GPUs:    []manager.GPUChange{{Index: 3, UUID: "GPU-3", Goes: []manager.Device{{GPUInstance: 2, ComputeInstance: 1}}}},
		Holders: []manager.User{{PID: 42, Unit: "nvsm.service", GPU: 3, Device: "3g.40gb"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
}

func TestFailure(t *testing.T) {
	reboot := apply.Outcomes{Outcome: apply.NeedsReboot, Err: &apply.RebootError{Reason: "no reset"}}
	one := apply.Result{GPUs: []apply.Outcomes{{Outcome: apply.Applied}, reboot}}
	if err := failure(one, one.Err()); !errors.Is(err, manager.ErrNeedsReboot) || !strings.Contains(err.Error(), "no reset") {
		t.Errorf("failure() = %v", err)
	}
	used := apply.Outcomes{Outcome: apply.RolledBack, Err: &apply.InUse{Index: 1, Holders: []apply.Holder{{Process: procowner.Process{PID: 7}}}}}
	both := apply.Result{GPUs: []apply.Outcomes{used, reboot}}
	if err := failure(both, both.Err()); errors.Is(err, manager.ErrNeedsReboot) {
		t.Errorf("failure() = %v: a reboot would end process 7", err)
	}
	busy, ok := errors.AsType[*manager.Busy](failure(apply.Result{}, &apply.InUse{Index: 2, Holders: []apply.Holder{{Process: procowner.Process{PID: 7}}}}))
	if !ok || len(busy.Users) != 1 || busy.Users[0].GPU != 2 {
		t.Errorf("failure() = %v", busy)
	}
	unknown := &apply.InUse{Index: 2}
	all := apply.Result{GPUs: []apply.Outcomes{
		used,
		{Outcome: apply.Applied},
		{Outcome: apply.RolledBack, Err: fmt.Errorf("GPU 5: %w", unknown)},
		{Outcome: apply.RolledBack, Err: fmt.Errorf("GPU 3: %w", &apply.InUse{Index: 3, Holders: []apply.Holder{{Process: procowner.Process{PID: 8}}, {Process: procowner.Process{PID: 9}}}})},
	}}
	busy, ok = errors.AsType[*manager.Busy](failure(all, all.Err()))
	if !ok || len(busy.Users) != 3 || busy.Users[0].GPU != 1 || busy.Users[1].GPU != 3 || busy.Users[2].PID != 9 {
		t.Errorf("failure() = %v, want the users of GPUs 1 and 3", busy)
	}
	if err := failure(apply.Result{}, unknown); !errors.Is(err, error(unknown)) {
		t.Errorf("failure() = %v, want what the applier says of a user that the driver does not name", err)
	}
}

// TestUnitsThatStayedStopped: the flags that let the agent stop units may be gone when it starts
// again.
func TestUnitsThatStayedStopped(t *testing.T) {
	dir := t.TempDir()
	boot := filepath.Join(dir, "boot_id")
	if err := os.WriteFile(boot, []byte("6f1c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &running{settings: &settings{stateDir: dir}, driver: &driver.Driver{Contract: contract.Dir{Root: dir, BootIDFile: boot}}, log: slog.New(slog.DiscardHandler)}
	var cfg manager.Config
	if err := r.hostUnits(clients.Systemd{}, &cfg); err != nil || cfg.Units != nil {
		t.Fatalf("hostUnits() = %v, %v, want no units without flags", cfg.Units, err)
	}
	const left = `{"bootID": "6f1c", "stopped": ["nvsm.service"]}`
	if err := os.WriteFile(filepath.Join(dir, "clients.json"), []byte(left), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.hostUnits(clients.Systemd{}, &cfg); err != nil || cfg.Units == nil {
		t.Fatalf("hostUnits() = %v, %v, want those that are to be started", cfg.Units, err)
	}
	if stopped, err := cfg.Units.Stopped(); err != nil || !slices.Equal(stopped, []string{"nvsm.service"}) {
		t.Errorf("Stopped() = %v, %v", stopped, err)
	}
}

// TestHolders: what containers hold of a GPU and of MIG devices is spared.
func TestHolders(t *testing.T) {
	pod := manager.User{Namespace: "team", Pod: "train-0", Container: "main"}
	p := partitioner{holdings: func(context.Context) (map[gpu.UUID][]users.Holding, error) {
		return map[gpu.UUID][]users.Holding{"GPU-1": {{User: pod, Device: manager.Device{GPUInstance: 3, ComputeInstance: 1}}}}, nil
	}}
	got, err := p.holders(t.Context())
	want := apply.Held{"GPU-1": {{
		Process: procowner.Process{Pod: procowner.Pod{Namespace: "team", Name: "train-0"}}, GPUInstance: 3, ComputeInstance: 1,
	}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("holders() = %v (-want +got):\n%s", err, diff)
	}
}
