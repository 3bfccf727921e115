package gpus_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/agents/container-toolkit/internal/gpus/program"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/simtest"
)

// Under the name of the program, the test is the program.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == gpus.Program {
		os.Exit(program.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// config returns the config of a simulated node, with this test as the program.
func config(t *testing.T, n *simtest.Node) gpus.Config {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	link := filepath.Join(t.TempDir(), gpus.Program)
	assert.NilError(t, os.Symlink(self, link))
	t.Setenv("GPU_SIM_STATE", filepath.Join(n.Root, "state"))
	t.Setenv("GPU_SIM_DEV", filepath.Join(n.Root, "dev"))
	return gpus.Config{
		Program: link, HostDriverRoot: filepath.Join(n.Root, "driver"), DevRoot: n.Root,
		ProcRoot: filepath.Join(n.Root, "proc"), SysRoot: filepath.Join(n.Root, "sys"), RunRoot: filepath.Join(n.Root, "run/nvidia"),
	}
}

func partition(n *simtest.Node) {
	n.Run("mig mode", "1", "on")
	n.Run("reset", "1")
	n.Run("mig create", "1", "3g.20gb", "1g.5gb")
}

func TestReadThroughTheProgram(t *testing.T) {
	n := simtest.New(t, "--gpus=2")
	partition(n)
	got, err := gpus.Read(t.Context(), config(t, n))
	assert.NilError(t, err)
	if len(got.GPUs) != 2 || got.GPUs[1].MIG == nil || len(got.GPUs[1].MIG.Devices) != 2 || got.GPUs[0].Brand == "" || got.Driver.CUDA.Major == 0 {
		t.Errorf("Read() = %+v, want two GPUs, of which one has MIG devices, with their brand, and the CUDA version", got)
	}
}

// Without NVML, whole GPUs are the same as far as the kernel driver knows them.
func TestReadWithoutNVML(t *testing.T) {
	n := simtest.New(t, "--gpus=3")
	cfg := config(t, n)
	whole, err := gpus.Read(t.Context(), cfg)
	assert.NilError(t, err)
	want := &gpu.Node{Driver: gpu.Driver{Version: whole.Driver.Version}}
	for _, g := range whole.GPUs {
		want.GPUs = append(want.GPUs, gpu.GPU{
			Index: g.Index, UUID: g.UUID, Minor: g.Minor, Name: g.Name, PCI: gpu.PCI{BusID: g.PCI.BusID}, NUMANode: g.NUMANode,
		})
	}
	for name, change := range map[string]func(*gpus.Config){
		"the program is not installed": func(c *gpus.Config) { c.Program = "/nonexistent/" + gpus.Program },
		"the library is not installed": func(c *gpus.Config) { c.HostDriverRoot = t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			less := cfg
			change(&less)
			got, err := gpus.Read(t.Context(), less)
			assert.NilError(t, err)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("Read() (-want +got):\n%s", d)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	p := cmdlinetest.Program{Name: gpus.Program, Usage: 1, Run: func(args []string, stdout, stderr io.Writer) int {
		return program.Main(t.Context(), args, stdout, stderr)
	}}
	p.Tool(t, map[string]cmdlinetest.Case{"a time that is none": {Line: "--timeout=no", Code: 1, Want: []string{"timeout", `"no"`}}})
}

// A node that cannot be read as a whole is an error that says what is missing.
func TestReadFails(t *testing.T) {
	script := func(text string) func(*testing.T, *simtest.Node, *gpus.Config) {
		return func(t *testing.T, _ *simtest.Node, c *gpus.Config) {
			c.Program = filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(c.Program, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is a program
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *simtest.Node, *gpus.Config)
		want   string
		is     error
	}{
		"MIG devices without NVML": {change: func(_ *testing.T, n *simtest.Node, c *gpus.Config) {
			partition(n)
			c.Program = "/nonexistent/" + gpus.Program
		}, want: "read MIG devices of GPU 0000:0f:00.0: only NVML lists them, and NVML cannot be used: "},
		"no driver": {change: func(t *testing.T, _ *simtest.Node, c *gpus.Config) {
			c.HostDriverRoot, c.ProcRoot = t.TempDir(), t.TempDir()
		}, want: "the kernel module nvidia is not loaded", is: gpu.ErrNoDriver},
		"the library crashes":  {change: script("kill -SEGV $$"), want: "the driver's library ended it: signal: segmentation fault"},
		"the driver hangs":     {change: script("exec sleep 600"), want: "the driver did not answer within 1ms"},
		"NVML fails":           {change: script("echo more >&2; echo 'toolkit-gpus: read GPUs: no' >&2; exit 1"), want: "/program: read GPUs: no"},
		"another version":      {change: script(`echo '{"gpus":[{"shape":1}]}'`), want: "unknown field"},
		"a GPU without a UUID": {change: noUUID, want: "the driver has not initialized it"},
	} {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=2")
			cfg := config(t, n)
			if name == "the driver hangs" {
				cfg.Timeout = time.Millisecond
			}
			c.change(t, n, &cfg)
			got, err := gpus.Read(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("Read() = %v, %v, want an error with %q", got, err, c.want)
			}
		})
	}
}

// Read waits while another program changes GPUs, for at most LeaseWait.
func TestReadWaitsForTheClaimOfAnotherProgram(t *testing.T) {
	n := simtest.New(t, "--gpus=1")
	cfg := config(t, n)
	if err := os.MkdirAll(cfg.RunRoot, 0o755); err != nil { //nolint:gosec // as on a node
		t.Fatal(err)
	}
	grant, err := contract.Dir{Root: cfg.RunRoot, ProcRoot: "/proc"}.NVML().Claim(t.Context(), "mig-manager", "change of MIG layouts", time.Minute)
	assert.NilError(t, err)
	defer grant.Release()
	const claimed = "lease is claimed by mig-manager (change of MIG layouts)"
	for wait, want := range map[time.Duration]string{0: claimed, time.Millisecond: "waited 1ms for the exclusive use of NVML by another program to end: "} {
		cfg.LeaseWait = wait
		if _, err := gpus.Read(t.Context(), cfg); !errors.Is(err, contract.ErrClaimed) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), claimed) {
			t.Errorf("with a limit of %s, Read() = %v, want %q", wait, err, want)
		}
	}
	cfg.LeaseWait = 5 * time.Minute
	cfg.Waiting = func(err error) {
		if !strings.Contains(err.Error(), claimed) {
			t.Errorf("it waits for %v", err)
		}
		if err := grant.Release(); err != nil {
			t.Error(err)
		}
	}
	if node, err := gpus.Read(t.Context(), cfg); err != nil || len(node.GPUs) != 1 {
		t.Errorf("after the claim, Read() = %+v, %v", node, err)
	}
}

func noUUID(t *testing.T, n *simtest.Node, c *gpus.Config) {
	t.Helper()
	c.Program = "/nonexistent/" + gpus.Program
	path := filepath.Join(n.Root, "proc/driver/nvidia/gpus/0000:07:00.0/information")
	text, err := os.ReadFile(path)
	assert.NilError(t, err)
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		if strings.HasPrefix(lines[i], "GPU UUID") {
			lines[i] = "GPU UUID: \t GPU-????????-????-????-????-????????????"
		}
	}
	assert.NilError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
}
