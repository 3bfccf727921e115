//go:build e2e

package engines_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/e2e/stack"
)

// namespaces begins the first process of fresh namespaces: when it ends, the engine, the
// containers and the mounts end with it. The toolkit's tools are where its packages
// install them.
const namespaces = `
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/data
ip link set lo up
if [ -n "${NODE:-}" ]; then
  "$SIM" mount --root "$NODE"
  mount -t tmpfs tmpfs /var/lib
  # The user daemon has numbers for user namespaces. The kernel lets these mount /proc and
  # /sys only where there are ones that nothing covers; the node covers parts of them.
  echo daemon:100000:65536 | tee -a /etc/subuid >>/etc/subgid
  for kind in proc sysfs; do
    mkdir /run/$kind
    mount -t $kind $kind /run/$kind
  done
fi
for tool in ${TOOLS:-}; do cp "$tool" /usr/bin/; done
`

// idle is the rest of that process, for an engine without a daemon. It ends with its input.
const idle = `
echo ready
cat >/dev/null
`

// systemPath is where the programs of a distribution are.
const systemPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// machine is a set of namespaces, in which an engine of the test's own runs.
type machine struct {
	t    *testing.T
	root string // of the repository
	// dir has what the machine and the test share.
	dir    string
	cgroup string
	// pid is the process that has the namespaces, except that of processes.
	pid int
}

// newMachine returns a machine that is not started.
func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("this needs root: it starts a container engine in namespaces of its own")
	}
	dir := shortDir(t)
	m := &machine{t: t, root: root, dir: dir, cgroup: "outrigger-" + filepath.Base(dir)}
	t.Cleanup(func() { removeCgroups(t, m.cgroup) })
	return m
}

// start runs the first process, and ends it with the test. The machine is the simulated
// node, or this one where n is nil.
func (m *machine) start(n *node, script string, env ...string) {
	m.t.Helper()
	args := []string{"unshare", "-m", "-n", "-p", "-u", "-i", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", namespaces + script}
	env = append([]string{"PATH=" + systemPath, "DIR=" + m.dir, "CGROUP=" + m.cgroup}, env...)
	if n != nil {
		args = append([]string{n.sim, "exec", "--root", n.root, "--"}, args...)
		env = append(env, "SIM="+n.sim, "NODE="+n.root, "TOOLS="+strings.Join(n.tools, " "))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), 3*time.Minute)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stderr = env, m.t.Output()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		cancel()
		m.t.Fatalf("start the machine: %v", err)
	}
	m.pid = cmd.Process.Pid
	m.t.Cleanup(func() {
		defer cancel()
		_ = in.Close() // of one that has ended already
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			m.t.Errorf("the machine did not end well: %v", err)
		}
	})
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		rest, _ := io.ReadAll(lines)
		m.t.Fatalf("start the machine: %v: %s%s", err, line, rest)
	}
}

// inside returns the command line that runs a command on the machine.
func (m *machine) inside(args ...string) []string {
	pid := strconv.Itoa(m.pid)
	return append([]string{"nsenter", "--target=" + pid, "--mount", "--net", "--uts", "--ipc", "--pid=/proc/" + pid + "/ns/pid_for_children", "--"}, args...)
}

// run runs a command on the machine that must succeed, and returns what it printed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	stdout, stderr, err := try(m.t, []string{"PATH=" + systemPath}, m.inside(args...)...)
	if err != nil {
		m.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, stderr)
	}
	return strings.TrimSpace(stdout)
}

// generate writes the CDI spec of the GPUs, as the documentation says.
func (m *machine) generate() {
	m.t.Helper()
	m.run("nvidia-ctk", "cdi", "generate", "--output=/var/run/cdi/nvidia.yaml")
}

// try runs a command.
func try(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// removeCgroups removes what the engine leaves of its parent cgroup. It fails
// where a container has left one.
func removeCgroups(t *testing.T, name string) {
	t.Helper()
	// Podman leaves the cgroup of its monitors.
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		for _, of := range []string{"/conmon", ""} {
			left, err := filepath.Glob(pattern + of)
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
