//go:build e2e

package app_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inDocker runs inside fresh namespaces, as their first process: when it ends,
// the engine, the containers and the mounts end with it.
const inDocker = `
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/docker-data
ip link set lo up
dockerd --data-root /run/docker-data --storage-driver vfs --exec-root /run/dk --pidfile /run/dk.pid \
  -H unix:///run/docker.sock --iptables=false --ip6tables=false --bridge=none \
  --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent="$CGROUP" >"$LOG" 2>&1 &
engine=$!
export DOCKER_HOST=unix:///run/docker.sock DOCKER_CONFIG=/run/docker-client
until docker version >/dev/null 2>&1; do
  kill -0 $engine || { echo "dockerd ended:"; tail -n 20 "$LOG"; exit 70; }
  sleep 0.1
done
echo "engine $(docker version --format '{{.Server.Version}}')"
docker load --quiet -i "$ARCHIVE"
# The engine is asked to end, so that it removes what it made.
rc=0
docker run --rm --network=none --security-opt=no-new-privileges --cap-drop=ALL "$REF" "$@" || rc=$?
kill $engine
wait $engine || true
exit $rc
`

// docker runs "docker run REF ARGS…" on an engine of its own.
func docker(t *testing.T, archive, ref string, args ...string) (string, error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this needs root: it starts a container engine in namespaces of its own")
	}
	// The client that comes with the engine, whatever else is on PATH.
	path := "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
	for _, name := range []string{"/usr/sbin/dockerd", "/usr/bin/docker"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("%s is missing: apt-get install --no-install-recommends docker.io", name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cgroup := fmt.Sprintf("outrigger-docker-%d", os.Getpid())
	t.Cleanup(func() { removeCgroups(t, cgroup) })
	log := filepath.Join(t.TempDir(), "dockerd.log")
	unshare := []string{"-m", "-n", "-p", "-u", "-i", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", inDocker, "sh"}
	cmd := exec.CommandContext(ctx, "unshare", append(unshare, args...)...)
	cmd.Env = []string{path, "ARCHIVE=" + archive, "REF=" + ref, "CGROUP=/" + cgroup, "LOG=" + log}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil && strings.Contains(string(out), "dockerd ended:") {
		t.Fatalf("start dockerd: %v", err)
	}
	return string(out), err
}

// removeCgroups removes what the engine leaves of its parent cgroup.
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

func TestEveryImageRunsInDockerAsItIs(t *testing.T) {
	for component, want := range map[string]string{
		"vectoradd":     "check that a GPU computes",
		"device-plugin": "--mig-strategy",
	} {
		t.Run(component, func(t *testing.T) {
			archive, ref := build(t, component)
			out, err := docker(t, archive, ref, "--help")
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("docker run %s --help: %v, want %q in what it prints", ref, err, want)
			}
		})
	}
}

func TestVectoraddSaysInDockerThatTheDriverIsMissing(t *testing.T) {
	archive, ref := build(t, "vectoradd")
	out, err := docker(t, archive, ref)
	if err == nil || !strings.Contains(out, "open libcuda.so.1: library not loadable") {
		t.Errorf("docker run %s: %v, want an error that names libcuda.so.1", ref, err)
	}
}
