//go:build e2e

package driver_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFirstBoot has what happens to a node until it boots again.
func TestFirstBoot(t *testing.T) {
	guest(t)
	t.Run("a bare node is planned", planned)
	t.Run("the driver is loaded from the cache with its parameters", fromCache)
	t.Run("a loaded driver is left alone", leftAlone)
	t.Run("a driver is loaded again with other parameters", otherParameters)
	t.Run("a driver that is held stays", held)
	t.Run("the agent waits for a holder and upgrades", waits)
	t.Run("the device plugin lets go of the driver", letsGo)
	t.Run("a version that fails is rolled back", rolledBack)
	t.Run("parameters are rejected", rejected)
	t.Run("a change that is killed goes on", killed)
	t.Run("a damaged module is not loaded", damaged)
	t.Run("the node goes down in the middle of a change", func(t *testing.T) { kill(t, broken, "unloading module") })
}

func planned(t *testing.T) {
	out := succeeds(t, first, "plan")
	has(t, out, "next: ")
	if strings.Contains(out, "build") {
		t.Error(out)
	}
	loaded(t, "")
}

func fromCache(t *testing.T) {
	succeeds(t, first, "load")
	loaded(t, first)
	shows(t, "/proc/driver/nvidia/params", "OpenRmEnableUnsupportedGpus: 0")
	shows(t, "/proc/driver/nvidia/gpus/"+gpu+"/information", "Device Minor: \t 0")
	ready(t, first)
	for _, name := range []string{"nvidia0", "nvidiactl", "nvidia-uvm", "char/195:0", "char/195:255"} {
		hold(t, filepath.Join("/dev", name)).Close()
	}
	if _, err := os.Stat("/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + first); err != nil {
		t.Error(err)
	}
	shows(t, "/sys/module/firmware_class/parameters/path", "/run/nvidia/driver/lib/firmware")
}

func shows(t *testing.T, file, line string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains("\n"+string(data), "\n"+line+"\n") {
		t.Errorf("%s has not the line %q, %v:\n%s", file, line, err, data)
	}
}

// ready fails the test unless other agents are told that a version is ready.
func ready(t *testing.T, version string) {
	t.Helper()
	fact, err := os.ReadFile("/run/nvidia/validations/driver-ready")
	if err != nil || !strings.Contains(string(fact), version) || !strings.Contains(string(fact), "NVIDIA_DRIVER_ROOT=/run/nvidia/driver") {
		t.Errorf("%v:\n%s", err, fact)
	}
}

func leftAlone(t *testing.T) {
	before := written(t)
	has(t, succeeds(t, first, "load"), "driver "+first+" is ready")
	if after := written(t); after != before {
		t.Errorf("files were written: %s, before: %s", after, before)
	}
}

// written returns the times of the files that the agent writes.
func written(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, file := range []string{store, store + "/journal.json", "/run/nvidia/validations/driver-ready", "/dev/nvidia0", "/dev/char/195:0"} {
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, file, info.ModTime())
	}
	return out.String()
}

func otherParameters(t *testing.T) {
	write(t, parameters, "sim_gpus="+gpu+"\nNVreg_OpenRmEnableUnsupportedGpus=1\n")
	succeeds(t, first, "load")
	shows(t, "/proc/driver/nvidia/params", "OpenRmEnableUnsupportedGpus: 1")
}

func held(t *testing.T) {
	f := hold(t, "/dev/nvidia0")
	holder := fmt.Sprint(os.Getpid())
	fails(t, first, "unload", holder, "/dev/nvidia0")
	loaded(t, first)
	fails(t, second, "load", "ModuleInUse", holder, "/dev/nvidia0")
	loaded(t, first)
	f.Close()
	has(t, succeeds(t, first, "unload"), "nvidia_drm nvidia_modeset", "nvidia_uvm", "nvidia\n")
	loaded(t, "")
	succeeds(t, first, "load")
}

func waits(t *testing.T) {
	f := hold(t, "/dev/nvidia-uvm")
	var out output
	agent := exec.CommandContext(t.Context(), "driver-loader", "--driver-version="+second, "--drm-enabled", "--listen=")
	agent.Stdout, agent.Stderr = &out, &out
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, &out, "waiting", func() bool { return strings.Contains(out.String(), "/dev/nvidia-uvm") })
	loaded(t, first)
	f.Close()
	until(t, &out, "ready", func() bool {
		fact, err := os.ReadFile("/run/nvidia/validations/driver-ready")
		return err == nil && strings.Contains(string(fact), second)
	})
	loaded(t, second)
	if err := agent.Process.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	// The end of the agent changes nothing.
	loaded(t, second)
	ready(t, second)
}

func letsGo(t *testing.T) {
	var out output
	plugin := exec.CommandContext(t.Context(), "device-plugin", "--driver-root-ctr-path=/sim", "--kubelet-socket=", "--listen=")
	plugin.Stdout, plugin.Stderr = &out, &out
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	holds := func() bool { return opened(t, plugin.Process.Pid, "/dev/nvidiactl") }
	for _, version := range []string{first, second} {
		until(t, &out, "using the driver", holds)
		succeeds(t, version, "load")
		loaded(t, version)
	}
	until(t, &out, "using the new driver", holds)
	if err := plugin.Process.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := plugin.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// opened reports whether a process has a file open.
func opened(t *testing.T, pid int, path string) bool {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && target == path
	})
}

func rolledBack(t *testing.T) {
	fails(t, broken, "load", broken, "driver "+second+" was loaded again", "asked to fail with error 5")
	loaded(t, second)
	ready(t, second)
	// It is not tried again by itself.
	fails(t, broken, "load", "driver "+second+" was loaded again")
}

func rejected(t *testing.T) {
	// TestRejected has parameters that the agent rejects. Only the module finds out about these.
	write(t, parameters, "sim_gpus="+gpu+"\nsim_init_errno=19\n")
	fails(t, second, "load", "ModuleFoundNoDevice", "was loaded again with the previous ones")
	loaded(t, second)
	ready(t, second)
	write(t, parameters, "sim_gpus="+gpu+"\n")
	succeeds(t, second, "load")
	loaded(t, second)
}

// instance tells loads of the driver apart.
func instance(t *testing.T) uint64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat("/sys/module/nvidia", &s); err != nil {
		t.Fatal(err)
	}
	return s.Ino
}

func killed(t *testing.T) {
	versions := []string{first, second}
	// The tests of the loader have all steps, on a simulated kernel.
	for i, step := range []string{"unloading module", "mount the root", "loading module"} {
		version := versions[i%2]
		kill(t, version, step)
		succeeds(t, version, "load")
		loaded(t, version)
		ready(t, version)
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if n := strings.Count(string(mounts), " /run/nvidia/driver "); err != nil || n != 1 {
			t.Errorf("killed at %q: %d mounts of the driver root, %v", step, n, err)
		}
	}
	succeeds(t, second, "load")
}

// kill kills the agent at the first line of its log with a text.
func kill(t *testing.T, version, text string) {
	t.Helper()
	agent := exec.CommandContext(t.Context(), "driver-loader", "--driver-version="+version, "--drm-enabled", "load")
	log, err := agent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	seen := false
	for lines := bufio.NewScanner(log); !seen && lines.Scan(); {
		seen = strings.Contains(lines.Text(), text)
	}
	if err := agent.Process.Kill(); err != nil || !seen {
		t.Errorf("%q: seen: %v, %v", text, seen, err)
	}
	if err := agent.Wait(); err == nil {
		t.Errorf("%q: it ended before it was killed", text)
	}
}

// damaged has a module of the first version, which no longer is as it was built.
func damaged(t *testing.T) {
	files, err := filepath.Glob(store + "/modules/*/*/nvidia.ko")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "version="+first) {
			continue
		}
		data[len(data)/2] ^= 1
		write(t, file, string(data))
	}
	before := instance(t)
	fails(t, first, "load", "nvidia.ko differs from its digest")
	if after := instance(t); after != before {
		t.Error("the driver was unloaded for one that is damaged")
	}
	loaded(t, second)
	ready(t, second)
}

// TestReboot has the same disk as the first boot.
func TestReboot(t *testing.T) {
	guest(t)
	loaded(t, "")
	succeeds(t, second, "load")
	loaded(t, second)
	ready(t, second)
	has(t, succeeds(t, second, "load"), "driver "+second+" is ready")
}

// TestSignatures has a kernel that takes only modules with a signature by a key that it knows.
func TestSignatures(t *testing.T) {
	guest(t)
	before := node(t)
	fails(t, second, "load", "ModuleUnsigned: module nvidia: ", "fix: sign the modules with your own key")
	if after := node(t); !slices.Equal(after, before) {
		t.Errorf("the node has %q, before it had %q", after, before)
	}
}
