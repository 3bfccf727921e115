package loader_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
)

// busy is a host whose driver 1.0 works and is to be replaced, and that something uses.
func busy(t *testing.T) loader.Config {
	t.Helper()
	cfg := useHostDriver(t)
	p := stocked(t, cfg)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Sys, "module/nvidia/refcnt"), "1\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "devices"), "Character devices:\n195 nvidia\n195 nvidiactl\n  1 nvidia-uvm\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "driver/nvidia/version"), "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  1.0  Release Build\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "driver/nvidia/params"), "DeviceFileMode: 438\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "sys/kernel/random/boot_id"), "b\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Contract.Root, "leases/nvml"), "", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Store, "journal.json"), `{"works": {"version": "1.0", "flavour": "open"},
		"change": {"from": {"version": "1.0", "flavour": "open"}, "to": {"version": "2.0", "flavour": "open", "digest": "`+p.Digest+`"}}}`, 0o600)
	return cfg
}

// The agent withdraws the fact before it unloads the driver. A driver that stays is ready.
func TestADriverThatStaysIsReady(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, cfg loader.Config){
		"a process uses it":                      func(t *testing.T, cfg loader.Config) { t.Helper(); opens(t, cfg, "4711", "python3", "/dev/null") },
		"something uses it that cannot be found": func(*testing.T, loader.Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := busy(t)
			prepare(t, cfg)
			l := loader.New(cfg, "x86_64")
			for range 2 {
				step := l.Settle(t.Context())
				if step.Kind != loader.Wait || step.Causes[0].Code != cause.ModuleInUse {
					t.Fatalf("%s %v", step, step.Causes)
				}
				fact := cfg.Contract.Read(contract.DriverReady)
				if fact.State != contract.Valid || fact.Stamp.DriverVersion != "1.0" {
					t.Errorf("driver-ready: %+v", fact)
				}
				if _, claimed := cfg.Contract.NVML().Claimed(); claimed {
					t.Error("NVML is still claimed")
				}
			}
		})
	}
}

func TestOneProcessTakesSteps(t *testing.T) {
	cfg := busy(t)
	works, hold, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(works) })
	first := cfg
	first.Desired = func() (loader.Desired, error) {
		tell()
		<-hold
		return cfg.Desired()
	}
	go func() {
		defer close(ended)
		loader.New(first, "x86_64").Settle(t.Context())
	}()
	<-works
	second := cfg
	second.Desired = func() (loader.Desired, error) {
		t.Error("two processes take steps")
		return cfg.Desired()
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if step := loader.New(second, "x86_64").Settle(ctx); step.Kind != loader.Wait || !strings.Contains(step.Causes[0].Text, cfg.Store+"/lock") {
		t.Errorf("%s %v", step, step.Causes)
	}
	close(hold)
	<-ended
	if step := loader.New(cfg, "x86_64").Settle(t.Context()); step.Causes[0].Code != cause.ModuleInUse {
		t.Errorf("after it: %s %v", step, step.Causes)
	}
}

// The fact is there again, whoever removes it.
func TestTheFactHeals(t *testing.T) {
	n := loadertest.New(t)
	n.Stock(t, one)
	cfg := n.Config("", slog.New(slog.DiscardHandler))
	agenttest.Run(t, loader.New(cfg, loadertest.Machine).Run)
	published := func(when string) {
		t.Helper()
		agenttest.Poll(t, "driver-ready "+when, func() bool { return n.Published() == one })
	}
	published("once the driver is loaded")
	fact := cfg.Contract.Path(contract.DriverReady)
	for what, damage := range map[string]func() error{
		"it was removed":         func() error { return os.Remove(fact) },
		"it was truncated":       func() error { return os.Truncate(fact, 0) },
		"its folder was removed": func() error { return os.Rename(filepath.Dir(fact), filepath.Join(n.Dir, "gone")) }, // at once: it heals fast
	} {
		assert.NilError(t, damage())
		published("after " + what)
	}
}
