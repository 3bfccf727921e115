//go:build e2e

// Package engines_test runs container engines of its own: the images in Docker, as people
// do who inspect one agent alone (README.md and docs/device-plugin.md have the same
// command lines), and containers with GPUs in Docker and Podman.
package engines_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serving is the rest of a machine's first process, for Docker.
const serving = `
# As the folders of a containerd that the distribution starts.
mkdir -m 711 -p /run/dk/containerd
"$DOCKERD" $FLAGS --data-root /run/data --storage-driver vfs --exec-root /run/dk --pidfile /run/dk.pid \
  --config-file "$DIR/daemon.json" -H "$DOCKER_HOST" --iptables=false --ip6tables=false --userland-proxy=false --bridge=none \
  --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent="/$CGROUP" >"$DIR/log" 2>&1 &
engine=$!
until "$DOCKER" version >/dev/null 2>&1; do
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

// engine is a container engine of the test's own.
type engine struct {
	*machine
	// client is the start of its command lines.
	client []string
	env    []string
	// running are options of each container.
	running []string
	// images are the names of those that it has, by component.
	images map[string]string
	// config is Docker's config at its start.
	config string
}

// newEngine starts Debian's Docker. It runs on the simulated node, or on this machine
// where n is nil.
func newEngine(t *testing.T, n *node) *engine {
	t.Helper()
	// The client that comes with the engine, whatever else is on PATH.
	for _, name := range []string{"/usr/sbin/dockerd", "/usr/bin/docker"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("%s is missing: apt-get install --no-install-recommends docker.io", name)
		}
	}
	return newDocker(t, n, docker{daemon: "/usr/sbin/dockerd", client: "/usr/bin/docker"})
}

// currentDocker starts the Docker that is built from its module, with flags.
func currentDocker(t *testing.T, n *node, flags ...string) *engine {
	t.Helper()
	programs, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "cluster-components"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dockerd", "docker", "containerd", "runc"} {
		if _, err := os.Stat(filepath.Join(programs, name)); err != nil {
			t.Skipf("needs the programs of Docker: %v (run: make e2e)", err)
		}
	}
	return newDocker(t, n, docker{filepath.Join(programs, "dockerd"), filepath.Join(programs, "docker"), programs + ":", flags})
}

// docker says which Docker is started.
type docker struct {
	daemon, client string
	// path comes before the folders of the system in its PATH, in which it finds its
	// programs and the hooks of --gpus.
	path  string
	flags []string
}

// newDocker starts a Docker engine.
func newDocker(t *testing.T, n *node, d docker) *engine {
	t.Helper()
	m := newMachine(t)
	env := []string{"PATH=" + d.path + systemPath, "DOCKER_HOST=unix://" + m.dir + "/socket", "DOCKER_CONFIG=" + m.dir}
	e := &engine{machine: m, client: []string{d.client}, env: env, images: map[string]string{}, config: "{}"}
	if lacksResourceCapability(t) {
		path := filepath.Join(m.dir, "runtime")
		if err := os.WriteFile(path, []byte(restricted), 0o700); err != nil {
			t.Fatal(err)
		}
		e.config = fmt.Sprintf(`{"default-runtime": "restricted", "runtimes": {"restricted": {"path": %q}}}`, path)
	}
	write(t, m.dir, "daemon.json", e.config)
	m.start(n, serving, append(env, "DOCKERD="+d.daemon, "DOCKER="+d.client, "FLAGS="+strings.Join(d.flags, " "))...)
	t.Logf("engine %s", e.must("version", "--format", "{{.Server.Version}}"))
	return e
}

// must runs a command of the client that must succeed, and returns what it
// printed.
func (e *engine) must(args ...string) string {
	e.t.Helper()
	stdout, stderr, err := e.try(args...)
	if err != nil {
		e.t.Fatalf("%s %s: %v: %s", filepath.Base(e.client[0]), strings.Join(args, " "), err, stderr)
	}
	return strings.TrimSpace(stdout)
}

// try runs a command of the client.
func (e *engine) try(args ...string) (stdout, stderr string, err error) {
	e.t.Helper()
	return try(e.t, e.env, slices.Concat(e.client, args)...)
}

// image loads the image of a component, and returns its name.
func (e *engine) image(component string) string {
	e.t.Helper()
	if name := e.images[component]; name != "" {
		return name
	}
	archive := filepath.Join(e.root, "out", "images", component+".tar")
	if _, err := os.Stat(archive); err != nil {
		e.t.Skipf("needs the image of %s: %v (run: make images)", component, err)
	}
	// The user of the engine may not be able to open the file.
	args := slices.Concat([]string{"/bin/sh", "-c", `exec "$@" <"$0"`, archive}, e.client, []string{"load", "--quiet"})
	stdout, stderr, err := try(e.t, e.env, args...)
	_, name, found := strings.Cut(strings.TrimSpace(stdout), ": ")
	if err != nil || !found {
		e.t.Fatalf("load %s: %v: %s%s", archive, err, stdout, stderr)
	}
	e.images[component] = name
	return name
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
