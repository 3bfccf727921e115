//go:build e2e

package engines_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lowLevel are the runtimes that Podman starts; Debian's default is crun.
func lowLevel() []string { return []string{"runc", "crun"} }

// TestPodmanGivesGPUs gives GPUs to containers of Podman, from the CDI spec that
// "nvidia-ctk cdi generate" writes.
func TestPodmanGivesGPUs(t *testing.T) {
	n := newToolkitNode(t)
	m := podmanMachine(t, n)
	m.generate()
	for _, runtime := range lowLevel() {
		t.Run(runtime, func(t *testing.T) {
			e := m.podman("/run", runtime)
			e.running = []string{"--cgroup-parent=/" + e.cgroup}
			e.gives(t, n, way{options: device, visible: "void", unknown: unknownToCDI})
		})
	}
}

// TestPodmanOfTheMachineGivesSimulatedGPUs has an engine outside of the simulated node, as the first example of
// sim/README.md: the CDI spec names the files in the node's folder.
func TestPodmanOfTheMachineGivesSimulatedGPUs(t *testing.T) {
	n := newToolkitNode(t)
	n.run(t, "mig mode", "1", "on")
	n.run(t, "mig create", "1", "3g.40gb")
	m := podmanMachine(t, nil)
	spec := filepath.Join(m.dir, "nvidia.yaml")
	ctk := filepath.Join(filepath.Dir(n.sim), "nvidia-ctk")
	n.run(t, "exec", "--", ctk, "cdi", "generate", "--driver-root="+n.root+"/run/nvidia/driver", "--dev-root="+n.root, "--output="+spec)
	m.run("/bin/sh", "-euc", "mkdir /run/cdi && cp "+spec+" /run/cdi")
	e := m.podman("/run", "runc")
	e.running = []string{"--cgroup-parent=/" + e.cgroup, "--network=none"}
	for _, name := range []string{"0", "1:0"} {
		stdout, stderr, err := e.once(append(device(name), e.image("vectoradd"))...)
		if err != nil || !strings.Contains(stdout, "Test PASSED") {
			t.Errorf("vectoradd on the device %s: %v: %s%s", name, err, stdout, stderr)
		}
	}
}

// rootless prepares a machine for containers of the user daemon.
const rootless = `
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p /run/home /run/user/1
chown daemon /run/home /run/user/1
`

// TestPodmanGivesGPUsToUsers does so for a user who is not root.
func TestPodmanGivesGPUsToUsers(t *testing.T) {
	n := newToolkitNode(t)
	m := podmanMachine(t, n)
	m.generate()
	m.run("/bin/sh", "-euc", rootless)
	user := []string{"setpriv", "--reuid=1", "--regid=1", "--clear-groups"}
	if _, stderr, err := try(t, nil, m.inside(append(user, "unshare", "--user", "true")...)...); err != nil {
		t.Skipf("this machine has no user namespaces for users: %v: %s", err, stderr)
	}
	for _, runtime := range lowLevel() {
		t.Run(runtime, func(t *testing.T) {
			e := m.podman("/run/home", runtime, user...)
			e.gives(t, n, way{options: device, visible: "void", unknown: unknownToCDI, open: true})
		})
	}
}

// oneHierarchy hides cgroups of version 2 beside those of version 1, with which crun does
// not start.
const oneHierarchy = "! mountpoint --quiet /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified\n"

// podmanMachine returns a machine with Debian's Podman, which has no daemon. n is nil for a machine that is not the
// simulated node.
func podmanMachine(t *testing.T, n *node) *machine {
	t.Helper()
	for _, name := range []string{"/usr/bin/podman", "/usr/bin/crun"} {
		if _, err := os.Stat(name); err != nil {
			t.Skipf("%s is missing: apt-get install --no-install-recommends podman crun", name)
		}
	}
	m := newMachine(t)
	m.start(n, oneHierarchy+idle)
	return m
}

// podman returns the engine of the user that a command becomes. Its files are below home.
func (m *machine) podman(home, runtime string, become ...string) *engine {
	m.t.Helper()
	e := &engine{machine: m, images: map[string]string{}, env: []string{"PATH=" + systemPath, "HOME=" + home, "XDG_RUNTIME_DIR=/run/user/1"}}
	e.client = m.inside(slices.Concat(become, []string{
		"/usr/bin/podman", "--root=" + home + "/data", "--runroot=" + home + "/run", "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--runtime=" + runtime,
	})...)
	m.t.Logf("engine %s", e.must("version", "--format", "{{.Client.Version}}"))
	return e
}
