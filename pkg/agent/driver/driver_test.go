package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// newHost returns the folders of a host without a driver.
func newHost(t *testing.T) agent.Host {
	t.Helper()
	root := t.TempDir()
	host := agent.Host{
		DriverRoot: filepath.Join(root, "driver"), DriverRootCtrPath: filepath.Join(root, "driver"),
		DevRoot: root, ProcRoot: filepath.Join(root, "proc"), SysRoot: filepath.Join(root, "sys"), RunRoot: filepath.Join(root, "run"),
	}
	for _, dir := range []string{host.DriverRoot, filepath.Join(root, "dev"), host.ProcRoot, host.SysRoot, host.RunRoot} {
		assert.NilError(t, os.MkdirAll(dir, 0o755))
	}
	return host
}

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		ctr       string
		of        config.Driver
		root, see string
	}{
		"the config moves the driver root, and the agent sees it there": {
			ctr: "/driver", of: config.Driver{Root: "/opt/driver"}, root: "/opt/driver", see: "/opt/driver",
		},
		"the agent sees the driver root in a folder of its own": {
			ctr: "/driver-root", of: config.Driver{Root: "/opt/driver"}, root: "/opt/driver", see: "/driver-root",
		},
		"the config says where the agent sees it": {
			ctr: "/driver-root", of: config.Driver{Root: "/opt/driver", CtrRoot: "/mnt"}, root: "/opt/driver", see: "/mnt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t)
			host.DriverRoot, host.DriverRootCtrPath = "/driver", tc.ctr
			d, err := driver.New(host, tc.of)
			assert.NilError(t, err)
			if d.Root.HostPath() != tc.root || d.Root.CtrPath() != tc.see {
				t.Errorf("driver root %s, seen at %s; want %s, seen at %s", d.Root.HostPath(), d.Root.CtrPath(), tc.root, tc.see)
			}
			if d.Contract.Root != host.RunRoot || d.Contract.ProcRoot != host.ProcRoot {
				t.Errorf("contract %+v, want the host's run root and /proc", d.Contract)
			}
		})
	}
}

// TestWatchChanges makes each change after which a driver may answer, one after the
// other, and wants to be called after each.
func TestWatchChanges(t *testing.T) {
	host := newHost(t)
	d, err := driver.New(host, config.Driver{Root: host.DriverRoot, CtrRoot: host.DriverRootCtrPath, DevRoot: host.DevRoot})
	assert.NilError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 1000)
	done := make(chan error, 1)
	go func() { done <- d.WatchChanges(ctx, func() { changed <- struct{}{} }) }()
	awaitChange(t, changed, "the start")

	file := func(path ...string) func() error {
		return func() error {
			p := filepath.Join(path...)
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o600))
		}
	}
	var lease *contract.Grant
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"a device node appears", file(host.DevRoot, "dev/nvidia0")},
		{"a library is installed", file(host.DriverRoot, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")},
		{"another library is installed", file(host.DriverRoot, "usr/lib64/libcuda.so.1")},
		{"a program is installed", file(host.DriverRoot, "usr/bin/nvidia-smi")},
		{"the driver is reported ready", func() error {
			return d.Contract.Write(contract.DriverReady, contract.Record{Writer: "driver-loader"})
		}},
		{"another agent claims NVML", func() (err error) {
			lease, err = d.Contract.NVML().Claim(ctx, "mig-manager", "test", time.Minute)
			return err
		}},
		{"it releases NVML", func() error { return lease.Release() }},
		{"the driver root goes away", func() error { return os.RemoveAll(host.DriverRoot) }},
		{"it is back", file(host.DriverRoot, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")},
	} {
		for len(changed) > 0 {
			<-changed
		}
		assert.NilError(t, step.do())
		awaitChange(t, changed, step.what)
	}
	cancel()
	assert.NilError(t, <-done)
}

func awaitChange(t *testing.T, changed <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(5 * time.Minute):
		t.Fatalf("not called after %s", what)
	}
}

func TestSource(t *testing.T) {
	host, log := newHost(t), slog.New(slog.DiscardHandler)
	open := func(snapshot string) gpu.Source {
		host.Snapshot = snapshot
		d, err := driver.New(host, config.Driver{})
		assert.NilError(t, err)
		source, err := d.Source(log)
		assert.NilError(t, err)
		return source
	}

	snapshot := filepath.Join(t.TempDir(), "snapshot.json")
	data, err := json.Marshal(gputest.Node(gputest.H100, 2))
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(snapshot, data, 0o600))
	fromFile := open(snapshot)
	if n, err := fromFile.Snapshot(t.Context()); err != nil || len(n.GPUs) != 2 {
		t.Errorf("Snapshot() of a file = %+v, %v; want 2 GPUs", n, err)
	}
	assert.NilError(t, fromFile.Close())

	fromNVML := open("")
	if _, err := fromNVML.Snapshot(t.Context()); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("Snapshot() on a host without a driver = %v, want ErrNoDriver", err)
	}
	assert.NilError(t, fromNVML.Close())
}

func TestChecks(t *testing.T) {
	source := gputest.New(gputest.Node(gputest.H100, 1))
	check := driver.Checks(source)["nvml"]
	assert.NilError(t, check())
	source.SetHealth(gpu.ErrHangs)
	assert.ErrorIs(t, check(), gpu.ErrHangs)
	if got := driver.Checks(struct{ gpu.Source }{}); len(got) != 0 {
		t.Errorf("checks %v of a source without health, want none", got)
	}
}
