package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/arch"
)

// shell is a shell inside a node that runs one line at a time.
type shell struct {
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
}

// shell starts a shell in the node, which ends with the test.
func (s sim) shell(args ...string) *shell { return s.shellBy([]string{"sh"}, args...) }

// shellBy starts the shell by a command.
func (s sim) shellBy(command []string, args ...string) *shell {
	s.t.Helper()
	// The shell outlives the test's context, since clean-up ends it; a test
	// that hangs ends after a minute.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
	cmd := s.command(ctx, "exec", append(append(args, "--"), command...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	assert.NilError(s.t, err)
	out, err := cmd.StdoutPipe()
	assert.NilError(s.t, err)
	assert.NilError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		defer cancel()
		in.Close()
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("shell in the node: %v", err)
		}
	})
	return &shell{s.t, in, bufio.NewScanner(out)}
}

// run runs a line and returns what it prints.
func (sh *shell) run(line string) string {
	sh.t.Helper()
	const end = "-- end of output --"
	if _, err := fmt.Fprintf(sh.in, "{ %s\n} 2>&1; echo %q\n", line, end); err != nil {
		sh.t.Fatal(err)
	}
	var out []string
	for sh.lines.Scan() {
		if sh.lines.Text() == end {
			return strings.Join(out, "\n")
		}
		out = append(out, sh.lines.Text())
	}
	sh.t.Fatalf("the shell ended during %q: %v", line, sh.lines.Err())
	return ""
}

// mountinfo returns the mounts of the machine, without the mounts of other tests that run at the same time.
func mountinfo(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	var mounts []string
	for line := range strings.Lines(string(data)) {
		point := strings.Fields(line)[4]
		if !strings.HasPrefix(point, os.TempDir()+"/") && !strings.HasPrefix(point, "/run/outrigger-") {
			mounts = append(mounts, line)
		}
	}
	return strings.Join(mounts, "")
}

func TestExecShowsTheNodeAtTheRealPaths(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "a100-40")
	mounts, remembered := mountinfo(t), ldconfigMemory(t)
	sh := s.shell()
	cases := map[string]struct{ line, want string }{
		"the driver's version":               {"cat /proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for " + arch.Kernel + "  580.95.05 "},
		"a node without driver behind it":    {"cat /dev/nvidia0", "No such device or address"}, // ENXIO: allowed
		"device nodes that work":             {"head -c 3 /dev/zero | wc -c", "3"},
		"a library for the loader":           {"LD_PRELOAD=libcuda.so.1 cat /proc/self/maps", "/" + arch.Libraries + "/libcuda.so.580.95.05"},
		"libraries in the loader's cache":    {"ldconfig -p", "libnvidia-ml.so.1 (libc6,x86-64) => "},
		"the machine's own programs":         {"ls /usr/bin", "env"},
		"the driver's programs":              {"command -v nvidia-smi", "/usr/bin/nvidia-smi"},
		"programs that are there by name":    {"nvidia-debugdump || echo code $?", "not simulated"},
		"a GPU on the PCI bus":               {"cat /sys/bus/pci/devices/0000:07:00.0/vendor", "0x10de"},
		"majors of the driver":               {"cat /proc/devices", "195 nvidiactl"},
		"the state where firmware is":        {"stat -c %i /lib/firmware/nvidia/*/gsp_sim.bin", inode(t, filepath.Join(s.root, "state"))},
		"a config file":                      {"cat /etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1"},
		"the machine's own config":           {"ls /etc/passwd", "/etc/passwd"},
		"an empty /dev/shm that takes files": {"echo x >/dev/shm/gpu-sim-test && cat /dev/shm/gpu-sim-test && rm /dev/shm/gpu-sim-test", "x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sh.run(tc.line); !strings.Contains(got, tc.want) {
				t.Errorf("%s: got\n%s\nwant %q", tc.line, got, tc.want)
			}
		})
	}
	sh.run("echo x >/etc/gpu-sim-test; echo x >/usr/bin/gpu-sim-test")
	for _, path := range []string{"/dev/nvidia0", "/proc/driver/nvidia", "/lib/firmware/nvidia/580.95.05", "/usr/bin/nvidia-persistenced", "/etc/gpu-sim-test", "/usr/bin/gpu-sim-test"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the machine shows %s: %v", path, err)
		}
	}
	if after := mountinfo(t); after != mounts {
		t.Errorf("the machine's mounts changed from\n%s\nto\n%s", mounts, after)
	}
	if !os.SameFile(ldconfigMemory(t), remembered) {
		t.Error("ldconfig of the node has replaced the machine's file")
	}
}

// ldconfigMemory returns the file in which the machine's ldconfig remembers libraries. ldconfig replaces it each time.
func ldconfigMemory(t *testing.T) os.FileInfo {
	t.Helper()
	info, err := os.Stat("/var/cache/ldconfig/aux-cache")
	if errors.Is(err, fs.ErrNotExist) {
		assert.NilError(t, exec.CommandContext(t.Context(), "/sbin/ldconfig").Run())
		info, err = os.Stat("/var/cache/ldconfig/aux-cache")
	}
	assert.NilError(t, err)
	return info
}

func inode(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	assert.NilError(t, err)
	return fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino)
}

func TestChangesAreSeenInsideAtOnce(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1", "--model", "a100-40", "--driver", "off")
	driverRoot := filepath.Join(t.TempDir(), "driver")
	installed, contained := s.shell(), s.shell("--driver-root", driverRoot)
	// A namespace below the node's, as containers have.
	container := s.shellBy([]string{"unshare", "--mount", "--propagation", "slave", "sh"})

	list := "ls -d /dev/nvidia[0-9]* /dev/nvidiactl /proc/driver/nvidia/gpus/* /sys/bus/pci/devices/0000:[0-9a-f]*/numa_node 2>/dev/null | grep -v :00:[0-9a-f]*.[0-9]/; grep -c ' nvidia' /proc/devices"
	check := func(when string, present map[string]bool) {
		t.Helper()
		for name, sh := range map[string]*shell{"node": installed, "driver container": contained, "container": container} {
			got := sh.run(list)
			for path, want := range present {
				if strings.Contains(got, path) != want {
					t.Errorf("%s, in a %s: %s there: %t, want %t; got\n%s", when, name, path, !want, want, got)
				}
			}
		}
	}
	ls := "ls " + driverRoot

	check("before the driver", map[string]bool{"/dev/nvidiactl": false, "/proc/driver/nvidia": false})
	if got := contained.run(ls); got != "" {
		t.Errorf("driver root without driver: %s", got)
	}
	if got := installed.run("ls /" + arch.Libraries + "/libcuda.so.1"); !strings.HasPrefix(got, "/usr/lib") {
		t.Errorf("libraries of an installed driver: %s", got)
	}
	s.must("set", "driver=on")
	check("driver on", map[string]bool{"/dev/nvidiactl": true, "/dev/nvidia0": true, "/dev/nvidia1": false, "/proc/driver/nvidia/gpus/0000:07:00.0": true})
	if got := contained.run(ls); got != "etc\nlib\nusr" {
		t.Errorf("driver root with driver: %s", got)
	}
	if got := contained.run("stat -c %i " + driverRoot + "/lib/firmware/nvidia/*/gsp_sim.bin"); got != inode(t, filepath.Join(s.root, "state")) {
		t.Errorf("the state in the driver root has inode %s", got)
	}
	s.must("plug", "--model", "a100-40")
	check("plugged", map[string]bool{"/dev/nvidia1": true, "/proc/driver/nvidia/gpus/0000:0f:00.0": true})
	s.must("unplug", "0")
	check("unplugged", map[string]bool{"/dev/nvidia0": false, "/dev/nvidia1": true, "/proc/driver/nvidia/gpus/0000:07:00.0": false})
	s.must("set", "driver=off")
	check("driver off", map[string]bool{"/dev/nvidia": false, "/proc/driver/nvidia": false})
	if got := contained.run(ls); got != "" {
		t.Errorf("driver root after unload: %s", got)
	}
}

// The command takes gpu-sim's place: same process, its own exit code.
func TestExecBecomesTheCommand(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "0")
	cmd := s.command(t.Context(), "exec", "--", "sh", "-c", "echo $$; exit 7")
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("got exit code %d (%v), want 7", code, err)
	}
	if got, want := strings.TrimSpace(string(out)), fmt.Sprint(cmd.ProcessState.Pid()); got != want {
		t.Errorf("the command has PID %s, gpu-sim had %s", got, want)
	}
}

func TestMountAfterNewProc(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1")
	sh := s.shell()
	self, err := os.Executable()
	assert.NilError(t, err)
	script := fmt.Sprintf("ls /proc/driver; echo then; %s mount && %[1]s mount && ls /proc/driver; grep -c \" /proc/driver \" /proc/self/mountinfo", self)
	got := sh.run("unshare --pid --mount --fork --mount-proc sh -c '" + script + "'")
	// The old mount is listed still, below the new /proc.
	if want := "then\nnvidia\nnvidia-caps\n2"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A container's first process has the container's mount namespace, as the machine's has the machine's.
func TestMountForAllProgramsOfAContainer(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1")
	inContainer := func(args ...string) (string, error) {
		mount := s.command(t.Context(), "mount", args...)
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--pid", "--mount", "--fork", "--mount-proc"}, mount.Args...)...)
		cmd.Env = mount.Env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := inContainer(); err == nil || !strings.Contains(out, "in a container that is to be the node, add --all-programs") {
		t.Errorf("without the flag: %v: %s", err, out)
	}
	if out, err := inContainer("--all-programs"); err != nil {
		t.Errorf("with the flag: %v: %s", err, out)
	}
}

// Agents lock GPUs in /run/nvidia: those of one node must not see those of another.
func TestNodesDoNotShareTheirRunFolder(t *testing.T) {
	needRoot(t)
	one, other := newSim(t), newSim(t)
	one.must("create", "--gpus", "1")
	other.must("create", "--gpus", "1")
	const name = "/run/nvidia/gpu-sim-test"
	one.shell().run("echo x >" + name)
	if got := one.shell("--driver-root", "/run/nvidia/driver").run("cat " + name + "; ls /run/nvidia"); got != "x\ndriver\ngpu-sim-test" {
		t.Errorf("another program of the node sees %q", got)
	}
	if got := other.shell().run("cat " + name + " 2>/dev/null; echo end"); got != "end" {
		t.Errorf("the other node sees %q", got)
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the machine has %s: %v", name, err)
	}
}

// /run often forbids devices and programs; a node in it works all the same.
func TestNodeOnStrictFilesystem(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	dir := filepath.Join(t.TempDir(), "strict,with:marks")
	assert.NilError(t, os.Mkdir(dir, 0o755))
	self, err := os.Executable()
	assert.NilError(t, err)
	root := filepath.Join(dir, "node")
	script := fmt.Sprintf(`set -e
		mount -t tmpfs -o nosuid,nodev,noexec tmpfs %[1]s
		%[2]s create --gpus 1 >/dev/null
		%[2]s exec -- sh -c 'cat /dev/nvidia0; head -c 1 /dev/zero | wc -c; nvidia-xconfig; LD_PRELOAD=libcuda.so.1 ls /dev/nvidiactl'
		mount --bind "$GPU_SIM_ROOT/dev" /dev
		%[2]s mount
		cat /dev/nvidia0 || true`, dir, self)
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", asProgram+"=1", "GPU_SIM_ROOT="+root, "GPU_SIM_LIB_DIR="+s.libs)
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	want := "cat: /dev/nvidia0: No such device or address\n1\ngpu-sim: nvidia-xconfig: not simulated: this node's driver has the file only\n/dev/nvidiactl\n" +
		"cat: /dev/nvidia0: No such device or address\n"
	if got := string(out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
