package contract_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"outrigger.dev/pkg/contract"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 40 * time.Second

// The test binary runs itself as another agent, so that locks die with a real
// process: OUTRIGGER_TEST_DO says what it does with the contract in
// OUTRIGGER_TEST_ROOT, until its standard input is closed.
const (
	envDo   = "OUTRIGGER_TEST_DO"
	envRoot = "OUTRIGGER_TEST_ROOT"
)

func TestMain(m *testing.M) {
	if do := os.Getenv(envDo); do != "" {
		if err := other(do, contract.Dir{Root: os.Getenv(envRoot), ProcRoot: os.Getenv(envRoot)}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func other(do string, d contract.Dir) error {
	release := func() error { return nil }
	switch do {
	case "hold":
		h, err := d.HoldFile(d.Path(contract.PluginReady), contract.Record{Writer: "device-plugin"})
		if err != nil {
			return err
		}
		release = h.Release
	case "share":
		s, err := d.NVML().Share()
		if err != nil {
			return err
		}
		release = s.Release
	case "offer":
		c := d.NewClaims("dra-plugin")
		if err := c.Claim([]string{claimedGPU})[claimedGPU]; err != nil {
			return err
		}
		release = func() error { c.Release(); return nil }
	case "turn":
		// It holds the others up, as a process that is stopped in the middle.
		return contract.HoldTurn(d, "stuck-agent", func() {
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin)
		})
	case "claim":
		g, err := d.NVML().Claim(context.Background(), "mig-manager", "apply all-1g.5gb", time.Minute)
		if err != nil {
			return err
		}
		release = g.Release
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return release()
}

// agent is another agent's process.
type agent struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
}

// start runs another agent and returns when it has done what it should.
func start(t *testing.T, do string, d contract.Dir) *agent {
	t.Helper()
	a, out := launch(t, do, d)
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("other agent, %s: %s", do, line)
	}
	return a
}

// launch is start without waiting; the agent prints "ready".
func launch(t *testing.T, do string, d contract.Dir) (*agent, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:noctx // ended below
	// A race build otherwise rests a second before it exits.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", envDo+"="+do, envRoot+"="+d.Root)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	a := &agent{t: t, cmd: cmd, in: in}
	t.Cleanup(a.kill)
	return a, out
}

// kill ends the process as a crash does.
func (a *agent) kill() {
	if a.cmd.ProcessState == nil {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	}
}

// quit lets the process release what it has, and waits for its end.
func (a *agent) quit() {
	a.t.Helper()
	must(a.t, a.in.Close())
	must(a.t, a.cmd.Wait())
}

// newDir returns a contract on a node that runs driver 580.95.05.
func newDir(t *testing.T) contract.Dir {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "driver/nvidia"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "driver/nvidia/version"),
		[]byte("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)\nGCC version:  gcc 13.2.0\n"), 0o600))
	return contract.Dir{Root: root, ProcRoot: root}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
