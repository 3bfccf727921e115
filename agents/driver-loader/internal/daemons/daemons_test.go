package daemons_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/daemons"
	"outrigger.dev/pkg/cause"
)

// node is a machine with a driver root, whose programs are scripts.
type node struct {
	t   *testing.T
	dir string
	*daemons.Supervisor
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	n.Supervisor = daemons.New(daemons.Config{
		Root: n.path("root"), Proc: n.path("proc"), Sys: n.path("sys"), Run: n.path("run"), License: n.path("gridd.conf"),
		IMEX: n.path("imex"), Fabric: map[string]string{"LOG_LEVEL": "2", "FABRIC_MODE": "1"},
	})
	t.Cleanup(func() {
		if err := n.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return n
}

func (n *node) path(p string) string { return filepath.Join(n.dir, p) }

func (n *node) write(path, content string, mode os.FileMode) {
	n.t.Helper()
	assert.NilError(n.t, os.MkdirAll(filepath.Dir(n.path(path)), 0o755))
	assert.NilError(n.t, os.WriteFile(n.path(path), []byte(content), mode))
}

// daemon writes a program that puts a copy of itself into the background, as NVIDIA's do.
func (n *node) daemon(name, pidFile string) {
	n.t.Helper()
	n.write("root/usr/bin/"+name, `#!/bin/sh
if [ "$AS_DAEMON" ]; then
	echo $$ > `+n.path("run/"+pidFile)+`.new
	mv `+n.path("run/"+pidFile)+`.new `+n.path("run/"+pidFile)+`
	trap 'rm `+n.path("run/"+pidFile)+`; exit 0' TERM
	while :; do sleep 0.02; done
fi
echo "$@" > `+n.path(name+".args")+`
echo "$LD_LIBRARY_PATH" > `+n.path(name+".libraries")+`
AS_DAEMON=1 setsid "$0" </dev/null >/dev/null 2>&1 &
while [ ! -e `+n.path("run/"+pidFile)+` ]; do sleep 0.02; done
`, 0o755)
}

const (
	persistence = "nvidia-persistenced/nvidia-persistenced.pid"
	fabric      = "nvidia-fabricmanager/nv-fabricmanager.pid"
)

func (n *node) missing(want ...string) {
	n.t.Helper()
	if d := cmp.Diff(want, n.Missing(), cmpopts.EquateEmpty()); d != "" {
		n.t.Errorf("missing (-want +got):\n%s", d)
	}
}

func (n *node) starts() {
	n.t.Helper()
	if skipped, err := n.Start(n.t.Context()); skipped != nil || err != nil {
		n.t.Fatal(skipped, err)
	}
}

func TestDaemonsAreStartedAndStopped(t *testing.T) {
	n := newNode(t)
	n.missing()
	n.daemon("nvidia-persistenced", persistence)
	n.write("root/usr/lib/x86_64-linux-gnu/libnvidia-cfg.so.1", "", 0o644)
	n.missing("nvidia-persistenced")
	n.starts()
	n.missing()
	// Another start, as after a restart of the agent, leaves it.
	before, err := os.ReadFile(n.path("run/" + persistence))
	assert.NilError(t, err)
	n.starts()
	if after, err := os.ReadFile(n.path("run/" + persistence)); err != nil || string(after) != string(before) {
		t.Errorf("started again: %q instead of %q, %v", after, before, err)
	}
	for file, want := range map[string]string{
		"nvidia-persistenced.args": "--persistence-mode\n", "nvidia-persistenced.libraries": n.path("root/usr/lib/x86_64-linux-gnu") + ":" + n.path("root/usr/lib") + "\n",
	} {
		if got, err := os.ReadFile(n.path(file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	assert.NilError(t, n.Stop(t.Context()))
	n.missing("nvidia-persistenced")
}

func TestAPIDFileThatNamesAnotherProcess(t *testing.T) {
	n := newNode(t)
	n.daemon("nvidia-persistenced", persistence)
	n.write("run/"+persistence, "2\n", 0o644)
	n.missing("nvidia-persistenced")
	assert.NilError(t, n.Stop(t.Context()))
}

func TestTheFabricFailsClosed(t *testing.T) {
	n := newNode(t)
	n.write("proc/driver/nvidia-nvswitch/devices/0000:c1:00.0", "", 0o644)
	var c cause.Cause
	n.missing("nv-fabricmanager")
	if _, err := n.Start(t.Context()); !errors.As(err, &c) || c.Code != cause.FabricManagerMissing {
		t.Errorf("no fabric manager: %v", err)
	}
	n.write("root/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\nTOPOLOGY_FILE_PATH=/usr/share/nvidia/nvswitch\n", 0o644)
	n.write("root/usr/bin/nv-fabricmanager", "#!/bin/sh\necho 'version\033 mismatch' >&2; exit 1\n", 0o755)
	n.missing("nv-fabricmanager")
	if _, err := n.Start(t.Context()); !errors.As(err, &c) || c.Code != cause.DriverDaemonFailed || !strings.Contains(c.Text, "version? mismatch") {
		t.Errorf("it does not start: %v", err)
	}
	n.missing("nv-fabricmanager")
	n.daemon("nv-fabricmanager", fabric)
	n.starts()
	n.missing()
	config := n.path("run/nvidia-fabricmanager/fabricmanager.cfg")
	if got, err := os.ReadFile(n.path("nv-fabricmanager.args")); err != nil || string(got) != "--config "+config+"\n" {
		t.Errorf("%q, %v", got, err)
	}
	want := "LOG_LEVEL=2\nTOPOLOGY_FILE_PATH=" + n.path("root/usr/share/nvidia/nvswitch") + "\nFABRIC_MODE=1\n"
	if got, err := os.ReadFile(config); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

const (
	nvlsm  = "nvidia-fabricmanager/nvlsm.pid"
	socket = "nvidia-fabricmanager/fm_sm_ipc.socket"
)

// nvlink5 is a machine with switches of NVLink 5, which two devices manage.
func nvlink5(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.write("sys/class/infiniband/mlx5_0/device/vpd", "\x82\x05\x00other", 0o600)
	n.write("sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:58a2:e103:00e1:0000\n", 0o600)
	for _, device := range []string{"mlx5_1", "mlx5_2"} {
		n.write("sys/class/infiniband/"+device+"/device/vpd", "\x82\x06\x00SW_MNG", 0o600)
	}
	return n
}

func TestSwitchesOfNVLink5FailClosed(t *testing.T) {
	n := nvlink5(t)
	fails := func(code cause.Code, part string, missing ...string) {
		t.Helper()
		n.missing(missing...)
		var c cause.Cause
		if _, err := n.Start(t.Context()); !errors.As(err, &c) || c.Code != code || !strings.Contains(c.Text, part) || c.Fix == "" {
			t.Errorf("%v, want %s: %s", err, code, part)
		}
	}
	fails(cause.SubnetManagerMissing, "no opt/nvidia/nvlsm/sbin/nvlsm", "nv-fabricmanager")
	n.write("root/opt/nvidia/nvlsm/sbin/nvlsm", "#!/bin/sh\necho 'no umad' >&2; exit 1\n", 0o755)
	fails(cause.FabricManagerMissing, "no usr/bin/nv-fabricmanager", "nv-fabricmanager", "nvlsm")

	n.daemon("nv-fabricmanager", fabric)
	n.write("root/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\n", 0o644)
	n.write("root/usr/share/nvidia/nvlsm/nvlsm.conf", "log_flags 3\n", 0o644)
	n.write("sys/class/infiniband/mlx5_1/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0000\n", 0o600)
	failsToStart := func(part string) {
		t.Helper()
		n.missing("nvlsm", "nv-fabricmanager")
		var c cause.Cause
		if _, err := n.Start(t.Context()); !errors.As(err, &c) || c.Code != cause.DriverDaemonFailed || c.Subject != "nvlsm" || !strings.Contains(c.Text, part) || c.Fix == "" {
			t.Errorf("%v, want: %s", err, part)
		}
	}
	failsToStart("no port of the devices that manage the NVLink switches has a GUID")
	n.write("sys/class/infiniband/mlx5_2/ports/1/gids/0", "fe80:0000:0000:0000:58a2:e103:00e1:f4c2\n", 0o600)
	failsToStart("the kernel module ib_umad, which is not loaded")
	n.write("sys/class/infiniband_mad/umad0/ibdev", "mlx5_2\n", 0o600)
	failsToStart("exit status 1: no umad")
	if _, err := os.Stat(n.path("nv-fabricmanager.args")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the fabric manager was started without the subnet manager: %v", err)
	}
}

func TestSwitchesOfNVLink5AreFoundWhenTheirDriverIsLoadedLater(t *testing.T) {
	n := newNode(t)
	n.write("sys/class/infiniband/mlx5_0/device/vpd", "\x82\x05\x00other", 0o600)
	n.missing()
	n.write("sys/class/infiniband/mlx5_1/device/vpd", "\x82\x06\x00SW_MNG", 0o600)
	n.missing("nv-fabricmanager")
}

func TestTheSubnetManagerIsReadyBeforeTheFabricManagerStarts(t *testing.T) {
	for name, program := range map[string]string{
		"in the foreground, without a PID file": "",
		"in the background": `[ "$AS_DAEMON" ] || { AS_DAEMON=1 setsid "$0" "$@" </dev/null >/dev/null 2>&1 & exit 0; }
echo $$ > PIDFILE`,
	} {
		t.Run(name, func(t *testing.T) {
			n := nvlink5(t)
			n.write("sys/class/infiniband/mlx5_2/ports/1/gids/0", "fe80:0000:0000:0000:58a2:e103:00e1:f4c2\n", 0o600)
			n.write("sys/class/infiniband_mad/umad0/ibdev", "mlx5_2\n", 0o600)
			n.write("root/usr/share/nvidia/nvlsm/nvlsm.conf", "event_plugin_options grpc_mgr(-c /usr/share/nvidia/nvlsm/grpc_mgr.conf)\n", 0o644)
			n.write("root/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\n", 0o644)
			n.write("root/opt/nvidia/nvlsm/sbin/nvlsm", "#!/bin/sh\n"+strings.ReplaceAll(program, "PIDFILE", n.path("run/"+nvlsm))+`
echo "$@" > `+n.path("nvlsm.args")+`
trap 'rm `+n.path("run/"+nvlsm)+`; exit 0' TERM
sleep 0.2
: > `+n.path("run/"+socket)+`
while :; do sleep 0.02; done
`, 0o755)
			n.daemon("nv-fabricmanager", fabric)
			manager, err := os.ReadFile(n.path("root/usr/bin/nv-fabricmanager"))
			assert.NilError(t, err)
			n.write("root/usr/bin/nv-fabricmanager", strings.Replace(string(manager), "#!/bin/sh\n", "#!/bin/sh\n[ -e "+n.path("run/"+socket)+" ] || exit 7\n", 1), 0o755)
			// That of an earlier one says nothing.
			n.write("run/"+socket, "", 0o644)
			n.missing("nvlsm", "nv-fabricmanager")
			n.starts()
			n.missing()
			config := n.path("run/nvidia-fabricmanager/nvlsm.conf")
			for file, want := range map[string]string{
				"nvlsm.args":                          "--guid 0x58a2e10300e1f4c2 --pid_file " + n.path("run/"+nvlsm) + " --log_file /var/log/nvlsm.log --config " + config + "\n",
				"nv-fabricmanager.args":               "--fm-sm-mgmt-port-guid 0x58a2e10300e1f4c2 --config " + n.path("run/nvidia-fabricmanager/fabricmanager.cfg") + "\n",
				"run/nvidia-fabricmanager/nvlsm.conf": "event_plugin_options grpc_mgr(-c " + n.path("root") + "/usr/share/nvidia/nvlsm/grpc_mgr.conf)\n",
			} {
				if got, err := os.ReadFile(n.path(file)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %q", file, got, err, want)
				}
			}
			assert.NilError(t, n.Stop(t.Context()))
			n.missing("nvlsm", "nv-fabricmanager")
		})
	}
}

func TestADaemonThatIsNotRequiredIsInTheWayOfNothing(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"it says why":              {"echo no device; exit 3", "start nvidia-persistenced: exit status 3: no device"},
		"it fails without a word":  {"exit 3", "start nvidia-persistenced: exit status 3"},
		"it ends without a word":   {"exit 0", "start nvidia-persistenced: it exited immediately"},
		"it ends, and it says why": {"echo no device", "start nvidia-persistenced: it exited immediately: no device"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write("root/usr/bin/nvidia-persistenced", "#!/bin/sh\n"+tc.script+"\n", 0o755)
			skipped, err := n.Start(t.Context())
			if err != nil || skipped == nil || skipped.Error() != tc.want {
				t.Errorf("%v, %v, want %s", skipped, err, tc.want)
			}
			n.missing()
		})
	}
}

func TestSettingsOfTheFabricManager(t *testing.T) {
	got, err := daemons.FabricSettings([]string{"PATH=/bin", "NVFM_CONFIG_LOG_LEVEL=4", "NVFM_CONFIG_EMPTY=", "NVFM_CONFIG_A=b=c", "XNVFM_CONFIG_B=1"})
	if d := cmp.Diff(map[string]string{"LOG_LEVEL": "4", "EMPTY": "", "A": "b=c"}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for _, variable := range []string{"NVFM_CONFIG_=1", "NVFM_CONFIG_A=1\nB=2", "NVFM_CONFIG_A=1\r"} {
		if got, err := daemons.FabricSettings([]string{variable}); err == nil || !strings.Contains(err.Error(), "variable NVFM_CONFIG_") {
			t.Errorf("%q: %v, %v", variable, got, err)
		}
	}
}

func TestIMEXNeedsTheNodes(t *testing.T) {
	n := newNode(t)
	n.write("root/usr/bin/nvidia-imex", "#!/bin/sh\necho \"$@\" > "+n.path("imex.args")+"\nwhile :; do sleep 0.02; done\n", 0o755)
	n.write("root/etc/nvidia-imex/config.cfg", "SERVER_PORT=50000\nDAEMONIZE=1\n", 0o644)
	n.missing()
	n.write("imex/nodes_config.cfg", "# addresses\n\n", 0o644)
	n.missing()
	n.write("imex/nodes_config.cfg", "# addresses\n10.0.0.1\n", 0o644)
	n.missing("nvidia-imex")
	n.starts()
	n.missing()
	config := n.path("run/nvidia-imex/config.cfg")
	for file, want := range map[string]string{
		n.path("imex.args"): "-c " + config + "\n", config: "SERVER_PORT=50000\nDAEMONIZE=0\n",
	} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", file, got, err, want)
		}
	}
	assert.NilError(t, n.Stop(t.Context()))
	n.missing("nvidia-imex")
	// The host's configuration comes first. A program that ends is tried once.
	n.write("imex/config.cfg", "SERVER_PORT=1\n", 0o644)
	n.write("root/usr/bin/nvidia-imex", "#!/bin/sh\ncat \"$2\"; exit 3\n", 0o755)
	skipped, err := n.Start(t.Context())
	if want := "start nvidia-imex: it ended at once"; err != nil || skipped == nil || !strings.Contains(skipped.Error(), want) || !strings.Contains(skipped.Error(), "SERVER_PORT=1; DAEMONIZE=0") {
		t.Errorf("%v, %v, want %s", skipped, err, want)
	}
	n.missing()
}

func TestTheLicenseClientNeedsItsConfiguration(t *testing.T) {
	n := newNode(t)
	n.write("root/usr/bin/nvidia-gridd", "#!/bin/sh\n", 0o755)
	n.missing()
	n.write("gridd.conf", "ServerAddress=license\n", 0o644)
	n.missing("nvidia-gridd")
}

// TestDaemonsOutliveTheContainer starts a daemon as from a container: it gets the mounts of the
// host's first process, and leaves the cgroups of the container.
func TestDaemonsOutliveTheContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for namespaces")
	}
	n := newNode(t)
	first := exec.CommandContext(t.Context(), "sleep", "60")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	assert.NilError(t, first.Start())
	defer func() { _, _ = first.Process.Kill(), first.Wait() }()
	n.write("host/sys/fs/cgroup/cgroup.procs", "", 0o644)
	n.write("proc/driver/none", "", 0o644)
	for link, target := range map[string]string{"host/tmp": "/tmp", "proc/1": "/proc/" + strconv.Itoa(first.Process.Pid)} {
		assert.NilError(t, os.Symlink(target, n.path(link)))
	}
	n.Supervisor = daemons.New(daemons.Config{
		Root: n.path("root"), Proc: n.path("proc"), Sys: n.path("sys"), Run: n.path("run"), License: n.path("gridd.conf"), Host: n.path("host"),
	})
	n.daemon("nvidia-persistenced", persistence)
	n.starts()
	text, err := os.ReadFile(n.path("run/" + persistence))
	assert.NilError(t, err)
	pid := strings.TrimSpace(string(text))
	mounts := func(pid string) string {
		ns, err := os.Readlink("/proc/" + pid + "/ns/mnt")
		if err != nil {
			t.Error(err)
		}
		return ns
	}
	if got, host := mounts(pid), mounts(strconv.Itoa(first.Process.Pid)); got != host || got == mounts("self") {
		t.Errorf("the daemon has the mounts %s, the host %s", got, host)
	}
	if moved, err := os.ReadFile(n.path("host/sys/fs/cgroup/cgroup.procs")); err != nil || string(moved) != pid {
		t.Errorf("moved %q, want %s: %v", moved, pid, err)
	}
	n.missing()
}

func TestNvidiaSMIIsThatOfTheDriverRoot(t *testing.T) {
	n := newNode(t)
	if n.Licensed() {
		t.Error("a license is configured")
	}
	n.write("gridd.conf", "", 0o644)
	if !n.Licensed() {
		t.Error("no license is configured")
	}
	n.write("root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "", 0o644)
	n.write("root/usr/bin/nvidia-smi", "#!/bin/sh\necho \"$@ $LD_LIBRARY_PATH\"\n", 0o755)
	if got, err := n.Query(t.Context()); err != nil || got != "-q "+n.path("root/usr/lib/x86_64-linux-gnu")+":"+n.path("root/usr/lib")+"\n" {
		t.Errorf("%q, %v", got, err)
	}
	for want, script := range map[string]string{
		"exit status 9: Failed to initialize NVML: Driver Not Loaded?[m; again": "printf 'Failed to initialize NVML: Driver Not Loaded\\033[m\\nagain\\n'; exit 9",
		"it printed more than 4194304 bytes":                                    "cat /dev/zero",
	} {
		n.write("root/usr/bin/nvidia-smi", "#!/bin/sh\n"+script+"\n", 0o755)
		if _, err := n.Query(t.Context()); err == nil || !strings.Contains(err.Error(), "run nvidia-smi -q: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestADaemonThatDoesNotEndIsNamed(t *testing.T) {
	n := newNode(t)
	n.daemon("nvidia-persistenced", persistence)
	if _, err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(n.path("run/" + persistence))
	assert.NilError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(written)))
	assert.NilError(t, err)
	assert.NilError(t, unix.Kill(pid, unix.SIGSTOP))
	defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Stop(ctx); !cause.Is(err, cause.DriverDaemonStaysAlive) || !strings.Contains(err.Error(), "kill ") {
		t.Error(err)
	}
}
