//go:build e2e

package cgroup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/cluster/internal/cgroup"
)

// enterEnv makes TestEnterForAnother do its work.
const enterEnv = "CGROUP_TEST_ENTER"

// TestEnterForAnother is the process that is killed in the test below.
func TestEnterForAnother(t *testing.T) {
	mountPoint := os.Getenv(enterEnv)
	if mountPoint == "" {
		t.Skip("runs only in a process of its own")
	}
	tree, err := cgroup.Find(mountPoint, "outrigger-test")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Enter("node", "system"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("entered\n"); err != nil {
		t.Fatal(err)
	}
	<-make(chan struct{})
}

func TestTree(t *testing.T) {
	mountPoints := []string{cgroup.MountPoint}
	// A machine with version 1 has a hierarchy of version 2 beside it.
	if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err == nil {
		mountPoints = append(mountPoints, "/sys/fs/cgroup/unified")
	}
	for _, mountPoint := range mountPoints {
		t.Run("a tree is made, filled, emptied and removed at "+mountPoint, func(t *testing.T) { testTree(t, mountPoint) })
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
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEnterForAnother$")
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
		t.Errorf("Processes() = %v, %v, want %d alone", pids, err, cmd.Process.Pid)
	}
	// Taken in at once, or it would stay on as a zombie.
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
