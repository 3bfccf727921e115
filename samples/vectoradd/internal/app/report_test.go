package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/pkg/contract"
)

// node is what vectoradd sees of its node.
type node struct{ run, proc string }

func newNode(t *testing.T) node {
	t.Helper()
	n := node{t.TempDir(), t.TempDir()}
	folder := filepath.Join(n.proc, "driver/nvidia")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	version := "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
	if err := os.WriteFile(filepath.Join(folder, "version"), []byte(version), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// reports runs vectoradd with --report on the node.
func (n node) reports(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	code, _, stderr = run(t, append([]string{"--report", "--run-root", n.run, "--proc-root", n.proc}, args...)...)
	return code, stderr
}

func (n node) fact() contract.Fact { return contract.Dir{Root: n.run}.Read(contract.CUDAReady) }

func TestItReportsThatCUDAWorks(t *testing.T) {
	n := newNode(t)
	if code, stderr := n.reports(t, "--cuda-library", fakeCUDA(t)); code != 0 || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	if f := n.fact(); f.State != contract.Valid || f.Stamp.Writer != "vectoradd" || f.Stamp.DriverVersion != "580.65.06" {
		t.Errorf("the fact is %+v", f)
	}
	afterBoot := contract.Dir{Root: n.run, BootIDFile: filepath.Join(t.TempDir(), "boot_id")}
	if err := os.WriteFile(afterBoot.BootIDFile, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := afterBoot.Read(contract.CUDAReady); f.State != contract.Stale {
		t.Errorf("after a reboot, the fact is %s, want stale", f.State)
	}
}

func TestItReportsWithoutTheVersionOfTheDriver(t *testing.T) {
	n := newNode(t)
	n.proc = t.TempDir()
	if code, stderr := n.reports(t, "--cuda-library", fakeCUDA(t)); code != 0 || n.fact().State != contract.Valid {
		t.Errorf("exit code %d, stderr %q, fact %+v", code, stderr, n.fact())
	}
}

func TestAFailureTakesTheReportBack(t *testing.T) {
	for name, macro := range map[string]string{
		"wrong results":         "-DKERNEL=1",
		"no device":             "-DFAIL_cuInit=100",
		"an error of the GPU":   "-DFAIL_cuCtxSynchronize=719",
		"a driver without CUDA": "-DVERSION=7050",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if code, stderr := n.reports(t, "--cuda-library", fakeCUDA(t)); code != 0 {
				t.Fatal(stderr)
			}
			if code, _ := n.reports(t, "--cuda-library", fakeCUDA(t, macro)); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if f := n.fact(); f.State != contract.Missing {
				t.Errorf("the fact is %+v, want none", f)
			}
		})
	}
}

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	n := newNode(t)
	n.run = filepath.Join(n.run, "not-mounted")
	code, stderr := n.reports(t, "--cuda-library", fakeCUDA(t))
	if code != 1 || !strings.Contains(stderr, "cuda-ready") || !strings.Contains(stderr, "mount the host's") {
		t.Errorf("exit code %d, stderr %q, want the cause and the fix", code, stderr)
	}
}

func TestAListIsNoReport(t *testing.T) {
	n := newNode(t)
	if code, stderr := n.reports(t, "--list", "--cuda-library", fakeCUDA(t)); code != 1 || !strings.Contains(stderr, "--report and --list") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
