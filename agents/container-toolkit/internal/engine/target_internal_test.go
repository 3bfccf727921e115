package engine

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
)

// proc is a process in the /proc of a node.
type proc struct {
	pid, parent int
	exe, cmd    string
	env, unit   string
	// start is the start time in ticks. 0 means 500.
	start int
	// elsewhere is true for a process in a container.
	elsewhere bool
	// user is the real user ID.
	user int
}

// TestProcessesThatAnEngineStarts: while an engine starts a program, such as the shim of a container, a second process has the
// program, the command line and the socket of the engine. Programs that dockerd starts can have its file. A signal to such a process
// does not restart the engine, and its start is no restart of the engine.
func TestProcessesThatAnEngineStarts(t *testing.T) {
	for _, engine := range allNames() {
		program := engine.program()
		for name, other := range map[string]proc{
			"a copy of the engine":      {pid: 10, parent: 9, exe: "/usr/bin/" + program, cmd: program, start: 700},
			"a program of its own file": {pid: 10, parent: 1, exe: "/usr/bin/" + program, cmd: "libnetwork-setkey", start: 700},
		} {
			n := newNode(t)
			n.run(proc{pid: 9, parent: 1, exe: "/usr/bin/" + program, cmd: program}, other)
			got, err := n.keeper(n.config(engine)).locate(context.Background())
			assert.NilError(t, err, "%s, %s", engine, name)
			assert.Equal(t, got.process.pid, 9, "%s, %s", engine, name)
		}
	}
}

// While an engine starts again, a program that only asks it something is not the engine: the engine's config, version
// and start would be wrong, and a signal would go to the program.
func TestCommandsOfAnEngineAreNotTheEngine(t *testing.T) {
	for engine, commands := range map[Name][]string{
		Docker:     {"--version", "--validate --config-file /etc/docker/daemon.json"},
		Containerd: {"--version", "--config /x.toml config dump", "config default", "--address /x.sock publish --topic /tasks/exit --namespace k8s.io"},
		CRIO:       {"--version", "version", "--config /x.conf config", "wipe", "status info"},
	} {
		for _, command := range commands {
			n := newNode(t)
			program := engine.program()
			n.run(proc{pid: 8, exe: "/usr/bin/" + program, cmd: program + " " + command})
			got, err := n.keeper(n.config(engine)).locate(context.Background())
			assert.NilError(t, err, "%s %s", program, command)
			assert.Assert(t, got.process == nil, "%s %s", program, command)
			n.run(proc{pid: 9, parent: 1, exe: "/usr/bin/" + program, cmd: program})
			got, err = n.keeper(n.config(engine)).locate(context.Background())
			assert.NilError(t, err, "%s %s", program, command)
			assert.Equal(t, got.process.pid, 9, "%s %s", program, command)
		}
	}
}

// A node can have several programs and configs of an engine. While the engine starts again, the ones that it was
// started with count, and not the defaults.
func TestAnEngineThatRestartsKeepsItsPlaces(t *testing.T) {
	n := newNode(t)
	for _, program := range []string{"/usr/bin/containerd", "/opt/bin/containerd"} {
		n.put(program, "#!/bin/sh\n")
		assert.NilError(t, os.Chmod(filepath.Join(n.root, program), 0o755))
	}
	n.run(proc{pid: 7, exe: "/opt/bin/containerd", cmd: "containerd -c /opt/c.toml --address /opt/c.sock", unit: "cri.service"})
	k := n.keeper(n.config(Containerd))
	_, err := k.locate(context.Background())
	assert.NilError(t, err)
	assert.NilError(t, os.RemoveAll(filepath.Join(n.root, "proc/7")))
	got, err := k.locate(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, strings.Join([]string{got.main, got.socket, got.unit, got.program}, " "), "/opt/c.toml /opt/c.sock cri.service /opt/bin/containerd")
	assert.Assert(t, got.process == nil, "it does not run")
	// An update has replaced it.
	assert.NilError(t, os.Remove(filepath.Join(n.root, "opt/bin/containerd")))
	got, err = k.locate(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, got.program, "/usr/bin/containerd")
	// A config that the engine does not read stays an error.
	c := n.config(Containerd)
	c.ConfigPath = "/etc/other/config.toml"
	k = n.keeper(c)
	n.run(proc{pid: 8, exe: "/usr/bin/containerd", cmd: "containerd"})
	for range 2 {
		_, err = k.locate(context.Background())
		assert.ErrorContains(t, err, "the running engine reads /etc/containerd/config.toml")
		assert.NilError(t, os.RemoveAll(filepath.Join(n.root, "proc/8")))
	}
}

// run adds processes to the node's /proc.
func (n node) run(procs ...proc) {
	n.Helper()
	for _, p := range procs {
		dir := filepath.Join("proc", strconv.Itoa(p.pid))
		n.put(filepath.Join(dir, "cmdline"), strings.ReplaceAll(p.cmd, " ", "\x00")+"\x00")
		n.put(filepath.Join(dir, "environ"), p.env)
		n.put(filepath.Join(dir, "cgroup"), "0::/../../system.slice/"+p.unit+"\n")
		n.put(filepath.Join(dir, "stat"), fmt.Sprintf("%d (a) b) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0", p.pid, p.parent, cmp.Or(p.start, 500)))
		n.put(filepath.Join(dir, "status"), fmt.Sprintf("Name:\tengine\nUid:\t%d\t0\t0\t0\n", p.user))
		root := n.root
		if p.elsewhere {
			root = n.TempDir()
		}
		for name, to := range map[string]string{"exe": p.exe, "cwd": "/srv", "root": root} {
			assert.NilError(n, os.Symlink(to, filepath.Join(n.root, dir, name)))
		}
	}
}

// NVIDIA's manifests name paths in the container.
func TestApplyRejectsPathsOfTheContainer(t *testing.T) {
	n := newNode(t)
	n.run(proc{pid: 7, exe: "/usr/bin/containerd", cmd: "containerd"})
	before := n.snapshot()
	c := n.config(Containerd)
	c.ConfigPath = "/runtime/config-dir/config.toml"
	_, err := n.keeper(c).Apply(context.Background())
	assert.ErrorContains(t, err, "the host has no folder /runtime/config-dir, and the running engine reads /etc/containerd/config.toml")
	assert.Equal(t, n.snapshot(), before)
}

func TestLocate(t *testing.T) {
	const k3s = "/var/lib/rancher/k3s"
	for name, tc := range map[string]struct {
		engine Name
		procs  []proc
		files  map[string]string
		config func(*Config)
		// want is: main, drop-in, socket, unit.
		want string
	}{
		"nothing runs": {engine: Containerd, want: "/etc/containerd/config.toml /etc/containerd/conf.d/99-nvidia.toml /run/containerd/containerd.sock containerd.service"},
		"containerd with a config of its own": {
			engine: Containerd,
			procs:  []proc{{pid: 7, exe: "/usr/bin/containerd (deleted)", cmd: "containerd --log-level=debug -c conf.toml --address=/x.sock", unit: "cri.service"}},
			want:   "/srv/conf.toml /etc/containerd/conf.d/99-nvidia.toml /x.sock cri.service",
		},
		"containerd of Docker and of a container are others": {
			engine: Containerd,
			procs: []proc{
				{pid: 3, exe: "/usr/bin/dockerd", cmd: "dockerd"},
				{pid: 4, parent: 3, exe: "/usr/bin/containerd", cmd: "containerd --config /var/run/docker/containerd/containerd.toml"},
				{pid: 5, exe: "/usr/local/bin/containerd", cmd: "containerd --config /kind.toml", elsewhere: true},
				{pid: 6, exe: "/usr/bin/containerd", cmd: "/usr/bin/containerd", unit: "containerd.service"},
			},
			want: "/etc/containerd/config.toml /etc/containerd/conf.d/99-nvidia.toml /run/containerd/containerd.sock containerd.service",
		},
		"a program of another user, with the name of the engine": {
			engine: Containerd,
			procs: []proc{
				{pid: 5, exe: "/home/user/containerd", cmd: "containerd --config /etc/hosts", user: 12345},
				{pid: 6, exe: "/usr/bin/containerd", cmd: "/usr/bin/containerd", unit: "containerd.service"},
			},
			want: "/etc/containerd/config.toml /etc/containerd/conf.d/99-nvidia.toml /run/containerd/containerd.sock containerd.service",
		},
		"k3s": {
			engine: Containerd,
			procs:  []proc{{pid: 7, exe: k3s + "/data/abc/bin/k3s", cmd: "containerd -c " + k3s + "/agent/etc/containerd/config.toml", unit: "k3s-agent.service"}},
			files:  map[string]string{k3s + "/agent/etc/containerd/config.toml": "version = 3\n[grpc]\naddress = '/run/k3s/containerd/containerd.sock'\n"},
			want:   k3s + "/agent/etc/containerd/config.toml " + k3s + "/agent/etc/containerd/config-v3.toml.d/99-nvidia.toml /run/k3s/containerd/containerd.sock k3s-agent.service",
		},
		"RKE2 that does not run": {
			engine: Containerd,
			files:  map[string]string{"/var/lib/rancher/rke2/agent/etc/containerd/other": ""},
			want:   "/var/lib/rancher/rke2/agent/etc/containerd/config.toml /var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/99-nvidia.toml /run/containerd/containerd.sock containerd.service",
		},
		"k0s": {
			engine: Containerd,
			procs:  []proc{{pid: 7, exe: "/var/lib/k0s/bin/containerd", cmd: "/var/lib/k0s/bin/containerd --root=/var/lib/k0s/containerd --address=/run/k0s/containerd.sock --config=/etc/k0s/containerd.toml", unit: "k0sworker.service"}},
			files:  map[string]string{k0sConfig: "# k0s_managed=true\nversion = 2\n"},
			want:   "/etc/k0s/containerd.toml /etc/k0s/containerd.d/99-nvidia.toml /run/k0s/containerd.sock k0sworker.service",
		},
		"microk8s": {
			engine: Containerd,
			procs:  []proc{{pid: 7, exe: "/snap/microk8s/1/bin/containerd", cmd: "containerd --config /var/snap/microk8s/1/args/containerd.toml --address /var/snap/microk8s/common/run/containerd.sock", unit: "snap.microk8s.daemon-containerd.service"}},
			files:  map[string]string{"/var/snap/microk8s/1/args/containerd-template.toml": "version = 2\n"},
			want:   "/var/snap/microk8s/1/args/containerd-template.toml /etc/containerd/conf.d/99-nvidia.toml /var/snap/microk8s/common/run/containerd.sock snap.microk8s.daemon-containerd.service",
		},
		"what the flags say": {
			engine: Containerd,
			procs:  []proc{{pid: 7, exe: "/usr/bin/containerd", cmd: "containerd -c /a.toml"}},
			config: func(c *Config) { c.ConfigPath, c.DropIn = "/a.toml", "/c.toml" },
			want:   "/a.toml /c.toml /run/containerd/containerd.sock containerd.service",
		},
		"Docker": {
			engine: Docker,
			procs:  []proc{{pid: 7, exe: "/usr/bin/dockerd", cmd: "/usr/bin/dockerd -H fd:// --config-file=/etc/d.json", unit: "docker.service"}},
			want:   "/etc/d.json  /var/run/docker.sock docker.service",
		},
		"CRI-O": {
			engine: CRIO,
			procs:  []proc{{pid: 7, exe: "/usr/bin/crio", cmd: "/usr/bin/crio --listen /crio.sock", env: "CONTAINER_CONFIG=/e.conf", unit: "crio.service"}},
			want:   "/e.conf /etc/crio/crio.conf.d/99-nvidia.toml /crio.sock crio.service",
		},
		"CRI-O with another folder": {
			engine: CRIO,
			procs:  []proc{{pid: 7, exe: "/usr/bin/crio", cmd: "crio -d /d", env: "CONTAINER_LISTEN=/crio.sock"}},
			want:   "/etc/crio/crio.conf /d/99-nvidia.toml /crio.sock crio.service",
		},
		"CRI-O whose config names the socket and a folder is in that of drop-ins": {
			engine: CRIO,
			files: map[string]string{
				crioConfig: "[crio.api]\nlisten = '/a.sock'\n", "/etc/crio/crio.conf.d/10/a.conf": "[crio.api]\nlisten = '/b.sock'\n",
			},
			procs: []proc{{pid: 7, exe: "/usr/bin/crio", cmd: "crio", unit: "crio.service"}},
			want:  "/etc/crio/crio.conf /etc/crio/crio.conf.d/99-nvidia.toml /b.sock crio.service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			for path, text := range tc.files {
				n.put(path, text)
			}
			n.run(tc.procs...)
			c := n.config(tc.engine)
			if tc.config != nil {
				tc.config(&c)
			}
			got, err := n.keeper(c).locate(context.Background())
			assert.NilError(t, err)
			assert.Equal(t, strings.Join([]string{got.main, got.dropIn, got.socket, got.unit}, " "), tc.want)
		})
	}
}

func TestSeveralProcesses(t *testing.T) {
	n := newNode(t)
	n.run(
		proc{pid: 5, exe: "/usr/bin/containerd", cmd: "containerd -c /a.toml --address /a.sock"},
		proc{pid: 6, exe: "/usr/bin/containerd", cmd: "containerd -c /b.toml --address /b.sock"},
	)
	c := n.config(Containerd)
	_, err := n.keeper(c).locate(context.Background())
	assert.Error(t, err, "find the process of containerd: 2 are running: set --runtime-socket to the socket of one")
	c.Socket = "/b.sock"
	got, err := n.keeper(c).locate(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, got.main, "/b.toml")
}

func TestPeerOfASocket(t *testing.T) {
	n := newNode(t)
	dir := agenttest.ShortDir(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	assert.NilError(t, err)
	defer l.Close()
	assert.Equal(t, host{root: dir}.peer("/s"), os.Getpid())
	assert.Equal(t, host{root: n.root}.peer("/s"), 0)
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]version{
		"containerd github.com/containerd/containerd/v2 v2.4.2 ":                        {2, 4},
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n": {1, 6},
		"Docker version 20.10.24+dfsg1, build 297e128":                                  {20, 10},
		"containerd github.com/k3s-io/containerd v2.0.5-k3s1 ":                          {2, 0},
		"crio version 1.34.0": {1, 34},
		"unknown":             {},
	} {
		assert.Equal(t, parseVersion(text), want, text)
	}
}

// TestAProcessThatMayNotBeRead looks for an engine without the right to see its program.
func TestAProcessThatMayNotBeRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this machine has no root for the test")
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "60")
	cmd.Args[0] = "containerd"
	assert.NilError(t, cmd.Start())
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }() // it sleeps longer than the test
	result := make(chan error)
	go func() {
		// The thread ends with this goroutine, and with it its rights.
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			result <- errno
			return
		}
		// While a process starts another program, it has no command line.
		var err error
		for t.Context().Err() == nil && err == nil {
			_, err = host{root: "/", proc: "/proc"}.processes(Containerd)
		}
		result <- err
	}()
	assert.ErrorContains(t, <-result, "permission denied: run as root with CAP_SYS_PTRACE")
}

// The parts of the toolkit share a Keeper. The race detector fails this test if they disturb each other.
func TestPartsShareAKeeper(t *testing.T) {
	n := newNode(t)
	n.put("/usr/bin/containerd", "")
	n.run(proc{pid: 7, exe: "/usr/bin/containerd", cmd: "containerd"})
	k := n.keeper(n.config(Containerd))
	var parts errgroup.Group
	for range 2 {
		parts.Go(func() error {
			_, err := k.LowLevel(t.Context())
			return err
		})
	}
	assert.NilError(t, parts.Wait())
}
