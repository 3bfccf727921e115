package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu/simtest"
)

// The tests of this file attack nvidia-container-cli configure and the prestart hook that
// runs it. They need a driver: they start themselves again on a simulated node.

const nodeVariable = "ATTACK_NODE"

// onNode starts this test again on a simulated node. It reports whether the caller is the
// one that runs there.
func onNode(t *testing.T) bool {
	t.Helper()
	if os.Getenv(nodeVariable) == t.Name() {
		return true
	}
	n := simtest.New(t, "--gpus=2")
	cmd := n.Command(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), nodeVariable+"="+t.Name())
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("on the node: %v", err)
	}
	return false
}

// process starts a process of the container: in its mount namespace, before it left the
// host's root.
func (v *victim) process() int {
	v.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	v.must(cmd.Start())
	v.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// mounts returns the lines of mountinfo of a process, by mount point.
func (v *victim) mounts(pid int) map[string]string {
	v.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	v.must(err)
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		out[fields[4]] = line
	}
	return out
}

// configure runs nvidia-container-cli for a new process of the container, and checks what
// it mounted: in the container only, and nothing of the container. It reports whether the
// container may start.
func (v *victim) configure(args ...string) bool {
	v.Helper()
	pid := v.process()
	before := v.mounts(pid)
	args = append([]string{"configure", "--no-cgroups", "--device=all", "--compute", "--utility", "--video", "--graphics", "--pid=" + strconv.Itoa(pid)}, args...)
	cmd := v.tool("nvidia-container-cli", append(args, v.rootfs(""))...)
	cmd.Dir, cmd.SysProcAttr = "/", nil
	good := v.finish(cmd)
	for at, line := range v.mounts(pid) {
		if _, old := before[at]; old {
			continue
		}
		if !strings.HasPrefix(at, v.rootfs("")+"/") {
			v.Errorf("mounted outside of the container: %s", line)
		}
		if source := strings.Fields(line)[3]; strings.Contains(source, filepath.Base(filepath.Dir(v.dir))) {
			v.Errorf("a file of the container, or a canary, is mounted: %s", line)
		}
	}
	return good
}

// targets are the paths that nvidia-container-cli mounts on. What it writes, it writes with
// the code of the hooks, which places attacks.
func targets() map[string]string {
	return map[string]string{
		"dev":                            ".",
		"usr":                            ".",
		libDir:                           "lib",
		"usr/bin":                        ".",
		"usr/bin/nvidia-smi":             "new",
		"usr/lib64":                      "lib",
		"dev/nvidiactl":                  "file",
		"dev/nvidia-caps":                ".",
		"lib":                            ".",
		"lib/firmware":                   "lib",
		"run":                            ".",
		"tmp":                            ".",
		"etc/OpenCL/vendors":             ".",
		"proc":                           ".",
		"proc/driver/nvidia":             "nvidia",
		libDir + "/vdpau":                "lib",
		libDir + "/libcuda.so.580.95.05": "lib/" + canaryLib,
	}
}

// As TestLinksInEachPath, for what the prestart hook mounts. CVE-2024-0132: the folder of
// CUDA compatibility libraries leads to the host's root.
func TestConfigureWithLinksInEachPath(t *testing.T) {
	if !onNode(t) {
		return
	}
	for place, canary := range targets() {
		v := newVictim(t)
		for i, target := range v.escape(canary) {
			t.Run(place+" "+strconv.Itoa(i), func(t *testing.T) {
				v.TB = t
				v.link(target, place)
				v.arm()
				v.configure()
				v.check()
			})
		}
	}
	t.Run("the host's root for the CUDA libraries", func(t *testing.T) {
		v := newVictim(t)
		v.link("../../../../../../../../../..", "usr/local/cuda/compat/libcuda.so.999.1.2")
		v.arm()
		for _, mode := range []string{"ldconfig", "mount"} {
			v.configure("--cuda-compat-mode=" + mode)
		}
		v.check()
	})
}

// As TestSwappedWhileTheHookRuns. CVE-2024-0132 and CVE-2025-23359 were such races.
func TestConfigureWhilePathsAreSwapped(t *testing.T) {
	if !onNode(t) {
		return
	}
	v := newVictim(t)
	_ = v.tool("nvidia-container-cli") // it skips the test before the race begins
	for _, dir := range []string{"etc/nvidia/nvidia-application-profiles-rc.d", libDir + "/gbm", libDir + "/vdpau", "usr/bin", "lib/firmware/nvidia", "etc/OpenCL/vendors", "run", "tmp"} {
		v.must(os.MkdirAll(v.rootfs(dir), 0o755))
	}
	pairs := v.traps()
	v.arm()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			p := pairs[n%len(pairs)]
			for range 2 {
				_ = unix.Renameat2(unix.AT_FDCWD, p[0], unix.AT_FDCWD, p[1], unix.RENAME_EXCHANGE)
			}
		}
	}()
	// A run takes several times as long as one of a hook.
	for range max(runs(t)/5, 1) {
		v.configure()
	}
	close(stop)
	<-stopped
	v.check()
	// A run passes so many of the folders that it can lose every race.
	if !v.configure() {
		t.Error("the program does not work after the race")
	}
}

// CVE-2024-0136: the program that updates the loader's cache must not be the container's.
func TestConfigureRejectsLdconfigOfTheContainer(t *testing.T) {
	if !onNode(t) {
		return
	}
	v := newVictim(t)
	v.image("sbin/ldconfig", "#!/bin/sh\ntouch "+filepath.Join(v.dir, "canary/escaped")+"\n")
	v.must(os.Chmod(v.rootfs("sbin/ldconfig"), 0o755))
	v.arm()
	for _, value := range []string{"/sbin/ldconfig", "@sbin/ldconfig", "@", ""} {
		if v.configure("--ldconfig=" + value) {
			t.Errorf("--ldconfig=%s is accepted", value)
		}
	}
	if !v.configure() {
		t.Error("a program of the host is rejected")
	}
	v.check()
}

// The container's root is never the host's.
func TestConfigureRejectsTheHostsRoot(t *testing.T) {
	if !onNode(t) {
		return
	}
	v := newVictim(t)
	for _, root := range []string{"/", "/proc/self/root", "/usr/.."} {
		pid := v.process()
		before := v.mounts(pid)
		cmd := v.tool("nvidia-container-cli", "configure", "--no-cgroups", "--device=all", "--utility", "--pid="+strconv.Itoa(pid), root)
		cmd.Dir, cmd.SysProcAttr = "/", nil
		if v.finish(cmd) {
			t.Errorf("%s is accepted as root file system", root)
		}
		if after := v.mounts(pid); len(after) != len(before) {
			t.Errorf("%s: something is mounted on the host's root", root)
		}
	}
}

// hostileValues are variables of an image that are to become something else on the
// command line of nvidia-container-cli.
func hostileValues() [][]string {
	return [][]string{
		{"NVIDIA_VISIBLE_DEVICES=--pid=1"},
		{"NVIDIA_VISIBLE_DEVICES=0 --no-cgroups"},
		{"NVIDIA_VISIBLE_DEVICES=0,--root=/proc/self/cwd"},
		{"NVIDIA_VISIBLE_DEVICES=../../../dev/sda"},
		{"NVIDIA_VISIBLE_DEVICES=0\n1"},
		{"NVIDIA_VISIBLE_DEVICES=" + strings.Repeat("0,", 50_000)},
		{"NVIDIA_VISIBLE_DEVICES=" + strings.Repeat("9", 100_000)},
		{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=compute,--pid=1"},
		{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_REQUIRE_X=--pid=1"},
		{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_IMEX_CHANNELS=../../x"},
		{"NVIDIA_VISIBLE_DEVICES=0", "CUDA_VERSION=$(touch x)"},
	}
}

// The prestart hook with the variables of a hostile image, and in its environment.
func TestPrestartWithHostileVariables(t *testing.T) {
	if !onNode(t) {
		return
	}
	for _, values := range hostileValues() {
		t.Run(values[len(values)-1][:min(60, len(values[len(values)-1]))], func(t *testing.T) {
			v := newVictim(t)
			v.image("nvidia-container-cli", "#!/bin/sh\ntouch "+filepath.Join(v.dir, "canary/escaped")+"\n")
			v.must(os.Chmod(v.rootfs("nvidia-container-cli"), 0o755))
			config, err := json.Marshal(map[string]any{
				"ociVersion": "1.0.2", "root": map[string]any{"path": "rootfs"}, "process": map[string]any{"env": values},
			})
			v.must(err)
			v.file("bundle/config.json", string(config))
			v.file("config.toml", "[nvidia-container-cli]\nno-cgroups = true\n")
			v.arm()
			pid := v.process()
			host := v.mounts(os.Getpid())
			v.prestart(pid)
			for at, line := range v.mounts(pid) {
				if _, old := host[at]; !old && !strings.HasPrefix(at, v.rootfs("")+"/") {
					t.Errorf("mounted outside of the container: %s", line)
				}
			}
			if after := v.mounts(os.Getpid()); len(after) != len(host) {
				t.Error("the mounts of the host changed")
			}
			v.check()
		})
	}
}

// prestart runs the hook with variables of the container in its own environment, which a
// runtime should not do.
func (v *victim) prestart(pid int) bool {
	v.Helper()
	cmd := v.tool("nvidia-container-runtime-hook", "-config", filepath.Join(v.dir, "config.toml"), "prestart")
	state, err := json.Marshal(map[string]any{"ociVersion": "1.0.2", "id": "victim", "pid": pid, "bundle": filepath.Join(v.dir, "bundle")})
	v.must(err)
	cmd.Stdin = bytes.NewReader(state)
	cmd.SysProcAttr = nil
	cmd.Env = []string{"PATH=/proc/self/cwd", "LD_PRELOAD=/proc/self/cwd/poc.so", "GOTRACEBACK=crash", "CUDA_MPS_PIPE_DIRECTORY=" + filepath.Join(v.dir, "canary")}
	return v.finish(cmd)
}
