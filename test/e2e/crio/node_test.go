//go:build e2e

// Package crio_test runs CRI-O on the simulated node, configured by the container toolkit.
package crio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/e2e/stack"
)

// The variables of the process that runs the test on the node: the node's folder, and the
// parent of all cgroups.
const (
	nodeVariable   = "CRIO_TEST_NODE"
	cgroupVariable = "CRIO_TEST_CGROUP"
)

// testLimit bounds the test on the node.
const testLimit = 3 * time.Minute

// onNode runs the test again in a process on a simulated node, in namespaces of its own: when
// it ends, the engine, the containers and the mounts end with it.
func onNode(t *testing.T) {
	t.Helper()
	root := repository(t)
	for _, name := range []string{"crio", "copyimg", "pinns", "runc"} {
		if _, err := os.Stat(component(root, name)); err != nil {
			t.Skipf("needs CRI-O: %v (run: test/cluster/build.sh bin/cluster-components crio runc)", err)
		}
	}
	if _, err := os.Stat("/usr/bin/conmon"); err != nil {
		t.Skipf("%v: apt-get install --no-install-recommends conmon", err)
	}
	n := simtest.New(t, "--name=crio", "--model=h100-80", "--gpus=4")
	cgroup := fmt.Sprint("outrigger-crio-", os.Getpid())
	t.Cleanup(func() { removeCgroups(t, cgroup) })
	ctx, cancel := context.WithTimeout(t.Context(), testLimit+30*time.Second)
	defer cancel()
	cmd := n.Command(ctx, "unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+testLimit.String())
	cmd.Env = append(os.Environ(), nodeVariable+"="+n.Root, cgroupVariable+"="+cgroup)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// repository returns the root of the repository.
func repository(t *testing.T) string {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// component returns the path of a program that test/cluster/build.sh builds.
func component(root, name string) string {
	return filepath.Join(root, "bin/cluster-components", name)
}

// prepare makes the mounts of the node. What CRI-O and the toolkit write goes nowhere else:
// /etc and /usr/bin are overlays of the node already.
func prepare(t *testing.T) {
	t.Helper()
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for _, dir := range []string{"/run", "/var/lib", "/var/log", "/usr/local", "/usr/libexec"} {
		must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	}
	root := repository(t)
	command(t, filepath.Join(root, "bin/gpu-sim"), "mount", "--root", os.Getenv(nodeVariable))
	command(t, "ip", "link", "set", "lo", "up")
	must(t, os.Mkdir("/run/nvidia", 0o755))
	// As the packages of CRI-O install them. No other runtime is on this host.
	must(t, os.MkdirAll("/usr/libexec/crio", 0o755))
	must(t, os.Symlink(component(root, "runc"), "/usr/libexec/crio/runc"))
	must(t, os.Symlink("/usr/bin/conmon", "/usr/libexec/crio/conmon"))
	must(t, os.Symlink(component(root, "pinns"), "/usr/bin/pinns"))
	for _, path := range []string{"/usr/sbin/runc", "/usr/sbin/crun", "/usr/bin/runc", "/usr/bin/crun"} {
		if _, err := os.Stat(path); err == nil {
			must(t, unix.Mount("/dev/null", path, "", unix.MS_BIND, ""))
		}
	}
}

// command runs a program that must succeed, and returns what it prints.
func command(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := try(t, program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v: %s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return out
}

// try runs a program, and returns what it prints.
func try(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}

// files returns the content of all files below a folder.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			b.WriteString(path + "\n")
			return err
		}
		data, err := os.ReadFile(path)
		b.WriteString(path + ":\n" + string(data))
		return err
	})
	must(t, err)
	return b.String()
}

// removeCgroups removes the cgroups that containers have left.
func removeCgroups(t *testing.T, name string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		tops, err := filepath.Glob(pattern)
		must(t, err)
		for _, top := range tops {
			var dirs []string
			must(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append([]string{path}, dirs...)
				}
				return err
			}))
			for _, dir := range dirs {
				removeCgroup(t, dir)
			}
		}
	}
}

// removeCgroup removes a cgroup once its last process, which is killed, has gone.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	err := os.Remove(dir)
	for errors.Is(err, unix.EBUSY) && pace.Pause(ctx, 20*time.Millisecond) {
		err = os.Remove(dir)
	}
	if err != nil {
		t.Errorf("remove the cgroup of the test: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
