//go:build e2e

package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"outrigger.dev/test/cluster/cluster"
)

// crashEnv makes the test binary start a cluster and wait until it is killed.
const crashEnv = "CLUSTER_TEST_BRING_UP"

func TestMain(m *testing.M) {
	if bin := os.Getenv(crashEnv); bin != "" {
		os.Exit(bringUpAndWait(bin))
	}
	os.Exit(m.Run())
}

// bringUpAndWait runs in the process that the tests below kill.
func bringUpAndWait(bin string) int {
	cfg := cluster.Config{BinDir: bin, Progress: os.Stdout}
	if _, err := cluster.Up(context.Background(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	return 0
}

func TestDownAfterACrash(t *testing.T) {
	for name, at := range map[string]string{
		"the process dies before nodes start":      "network created",
		"the process dies while nodes start":       "nodes started",
		"the process dies while Kubernetes starts": "API server ready",
		"the process dies while it uses a cluster": "cluster is up",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			before := takeSnapshot(t)
			crash(ctx, t, at)
			if err := cluster.Down(ctx, t.Output()); err != nil {
				t.Fatal(err)
			}
			checkSame(t, before)
		})
	}
}

func TestUpAfterACrash(t *testing.T) {
	ctx := testContext(t)
	before := takeSnapshot(t)
	crash(ctx, t, "API server ready")
	c := bringUp(ctx, t, cluster.Config{})
	kubectl(ctx, t, c, "get", "node", "node0")
	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	checkSame(t, before)
}

// crash starts a cluster in another process, and kills the process as soon as it reports
// the given step.
func crash(ctx context.Context, t *testing.T, step string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+binDir(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reached := false
	lines := bufio.NewScanner(out)
	for !reached && lines.Scan() {
		t.Log(lines.Text())
		reached = strings.Contains(lines.Text(), step)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	// Ignore the error of the killed process.
	_ = cmd.Wait()
	if !reached {
		t.Fatalf("the other process did not report %q", step)
	}
}
