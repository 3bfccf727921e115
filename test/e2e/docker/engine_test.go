//go:build e2e

// Package docker_test runs the images in Docker, as people do who inspect one
// agent alone: README.md and docs/device-plugin.md have the same command lines.
package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/e2e/stack"
)

// inNamespaces runs as the first process of fresh namespaces: when it ends, the
// engine, the containers and the mounts end with it. It ends with its input.
const inNamespaces = `
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/data
ip link set lo up
[ -z "${NODE:-}" ] || "$SIM" mount --root "$NODE"
dockerd --data-root /run/data --storage-driver vfs --exec-root /run/dk --pidfile /run/dk.pid \
  -H "$DOCKER_HOST" --iptables=false --ip6tables=false --bridge=none \
  --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent="/$CGROUP" ${RUNTIME:-} >"$DIR/log" 2>&1 &
engine=$!
until docker version >/dev/null 2>&1; do
  kill -0 $engine || { tail -n 20 "$DIR/log"; exit 70; }
  sleep 0.1
done
echo ready
cat >/dev/null
# The engine is asked to end, so that it removes what it made.
kill $engine
wait $engine || true
`

// restricted is a container runtime for a machine that lacks CAP_SYS_RESOURCE:
// Docker gives a privileged container all capabilities that the kernel knows.
const restricted = `#!/bin/sh
last=
for arg; do
  [ "$last" != --bundle ] || sed -i 's/"CAP_SYS_RESOURCE",//g' "$arg/config.json"
  last=$arg
done
exec runc "$@"
`

// engine is a Docker engine of the test's own.
type engine struct {
	t    *testing.T
	root string
	env  []string
}

// newEngine starts an engine with the images of out/images. It runs on the
// simulated node, or on this machine where n is nil.
func newEngine(t *testing.T, n *node) *engine {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("this needs root: it starts a container engine in namespaces of its own")
	}
	// The client that comes with the engine, whatever else is on PATH.
	for _, name := range []string{"/usr/sbin/dockerd", "/usr/bin/docker"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("%s is missing: apt-get install --no-install-recommends docker.io", name)
		}
	}
	dir := shortDir(t)
	cgroup := "outrigger-" + filepath.Base(dir)
	e := &engine{t: t, root: root, env: []string{
		// The engine looks for the hook of --gpus there.
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin:" + filepath.Join(root, "bin"), "DOCKER_HOST=unix://" + dir + "/socket", "DOCKER_CONFIG=" + dir,
	}}
	t.Cleanup(func() { removeCgroups(t, cgroup) })
	args := []string{"unshare", "-m", "-n", "-p", "-u", "-i", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", inNamespaces}
	env := append([]string{"DIR=" + dir, "CGROUP=" + cgroup}, e.env...)
	if n != nil {
		args = append([]string{n.sim, "exec", "--root", n.root, "--"}, args...)
		env = append(env, "SIM="+n.sim, "NODE="+n.root)
	}
	if lacksResourceCapability(t) {
		path := filepath.Join(dir, "runtime")
		if err := os.WriteFile(path, []byte(restricted), 0o700); err != nil {
			t.Fatal(err)
		}
		env = append(env, "RUNTIME=--add-runtime restricted="+path+" --default-runtime restricted")
	}
	e.start(args, env)
	e.load()
	return e
}

// start starts the engine, and ends it with the test.
func (e *engine) start(args, env []string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), 3*time.Minute)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stderr = env, e.t.Output()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		cancel()
		e.t.Fatalf("start the engine: %v", err)
	}
	e.t.Cleanup(func() {
		defer cancel()
		_ = in.Close() // of one that has ended already
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			e.t.Errorf("the engine did not end well: %v", err)
		}
	})
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		rest, _ := io.ReadAll(lines)
		e.t.Fatalf("start the engine: %v: %s%s", err, line, rest)
	}
	e.t.Logf("engine %s", e.docker("version", "--format", "{{.Server.Version}}"))
}

// load loads the images that are built.
func (e *engine) load() {
	e.t.Helper()
	for _, archive := range archives(e.t, e.root) {
		e.docker("load", "--quiet", "-i", archive)
	}
}

// docker runs a command of the client that must succeed, and returns what it
// printed.
func (e *engine) docker(args ...string) string {
	e.t.Helper()
	stdout, stderr, err := e.try(args...)
	if err != nil {
		e.t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, stderr)
	}
	return strings.TrimSpace(stdout)
}

// try runs a command of the client.
func (e *engine) try(args ...string) (stdout, stderr string, err error) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/docker", args...)
	cmd.Env = e.env
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// image returns the name of a component's image.
func (e *engine) image(component string) string {
	e.t.Helper()
	for ref := range strings.FieldsSeq(e.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}")) {
		if strings.Contains(ref, "/"+component+":") {
			return ref
		}
	}
	e.t.Skipf("out/images has no image of %s: make images", component)
	return ""
}

// archives returns the images in out/images.
func archives(t *testing.T, root string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "out", "images", "*.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("out/images has no image: make images")
	}
	return found
}

// removeCgroups removes what the engine leaves of its parent cgroup. It fails
// where a container has left one.
func removeCgroups(t *testing.T, name string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range left {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove the engine's cgroup: %v", err)
			}
		}
	}
}

func lacksResourceCapability(t *testing.T) bool {
	t.Helper()
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0)
	if err != nil {
		t.Fatal(fmt.Errorf("read the capabilities of this process: %w", err))
	}
	return has == 0
}

// shortDir returns a folder whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
