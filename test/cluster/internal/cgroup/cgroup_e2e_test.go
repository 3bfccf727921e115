//go:build e2e

package cgroup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/cluster/internal/cgroup"
)

// enterEnv makes the test binary enter the tree at a mount point, and wait until it is
// killed.
const enterEnv = "CGROUP_TEST_ENTER"

func TestMain(m *testing.M) {
	if mountPoint := os.Getenv(enterEnv); mountPoint != "" {
		if err := enter(mountPoint); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// enter runs in the process that the test below kills.
func enter(mountPoint string) error {
	tree, err := cgroup.Find(mountPoint, "outrigger-test")
	if err != nil {
		return err
	}
	if err := tree.Enter("node", "system"); err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("entered\n"); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	return nil
}

func TestTree(t *testing.T) {
	mountPoints := []string{cgroup.MountPoint}
	// A machine with version 1 has a hierarchy of version 2, too.
	if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err == nil {
		mountPoints = append(mountPoints, "/sys/fs/cgroup/unified")
	}
	for _, mountPoint := range mountPoints {
		t.Run("a tree is created, filled, emptied and removed at "+mountPoint, func(t *testing.T) { testTree(t, mountPoint) })
	}
}

func testTree(t *testing.T, mountPoint string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := folders(t, mountPoint)
	tree, err := cgroup.Find(mountPoint, "outrigger-test")
	if err != nil {
		t.Fatal(err)
	}
	controllers, err := tree.Controllers()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tree.Kill(context.WithoutCancel(ctx)), tree.Remove(context.WithoutCancel(ctx)), tree.RestoreControllers(controllers)); err != nil {
			t.Error(err)
		}
		after, err := tree.Controllers()
		if diff := cmp.Diff(controllers, after); err != nil || diff != "" {
			t.Errorf("controllers of the root: %v (-before +after):\n%s", err, diff)
		}
		if diff := cmp.Diff(before, folders(t, mountPoint)); diff != "" {
			t.Errorf("cgroups (-before +after):\n%s", diff)
		}
	})
	if err := tree.Create("node", "system"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), enterEnv+"="+mountPoint)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 64)); n == 0 {
		t.Fatalf("the other process did not enter: %v", err)
	}
	pids, err := tree.Processes()
	if err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("Processes() = %v, %v, want only %d", pids, err, cmd.Process.Pid)
	}
	// Reap the process at once, or it would stay as a zombie.
	go func() { _ = cmd.Wait() }()
	if err := tree.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if pids, err := tree.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("Processes() after Kill = %v, %v", pids, err)
	}
}

func folders(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
