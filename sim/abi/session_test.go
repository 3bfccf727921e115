package abi_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/state"
)

func TestInitSaysWhatIsMissing(t *testing.T) {
	tests := map[string]struct {
		damage func(t *testing.T, m *machine)
		want   nvml.Return
	}{
		"nothing": {func(*testing.T, *machine) {}, nvml.SUCCESS},
		"no control node": {
			func(t *testing.T, m *machine) { m.removeNode(t, "nvidiactl") }, nvml.ERROR_DRIVER_NOT_LOADED,
		},
		"no folder of nodes": {
			func(t *testing.T, m *machine) { t.Setenv("GPU_SIM_DEV", filepath.Join(m.dev, "none")) }, nvml.ERROR_DRIVER_NOT_LOADED,
		},
		"driver not loaded": {
			func(t *testing.T, m *machine) { mustDo(t, m.SetDriver(false)) }, nvml.ERROR_DRIVER_NOT_LOADED,
		},
		"no state file": {
			func(t *testing.T, m *machine) { mustDo(t, os.Remove(m.Path())) }, nvml.ERROR_DRIVER_NOT_LOADED,
		},
		"state file cut short": {
			func(t *testing.T, m *machine) { mustDo(t, os.Truncate(m.Path(), 100)) }, nvml.ERROR_UNKNOWN,
		},
		"state file of something else": {
			func(t *testing.T, m *machine) { overwrite(t, m.Path(), 0, "#!/bin/sh") }, nvml.ERROR_UNKNOWN,
		},
		"state file of another version": {
			func(t *testing.T, m *machine) { overwrite(t, m.Path(), 8, "\xff\xff") }, nvml.ERROR_LIB_RM_VERSION_MISMATCH,
		},
		"an answer that is forced": {
			func(t *testing.T, m *machine) { mustDo(t, m.ForceReturn("nvmlInit_v2", int(nvml.ERROR_UNKNOWN))) }, nvml.ERROR_UNKNOWN,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 1))
			test.damage(t, m)
			lib := m.load()
			ret := lib.Init()
			mustBe(t, "nvmlInit", ret, test.want)
			if ret == nvml.SUCCESS {
				mustBe(t, "nvmlShutdown", lib.Shutdown(), nvml.SUCCESS)
			}
		})
	}
}

func overwrite(t *testing.T, path string, at int64, with string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	mustDo(t, err)
	_, err = f.WriteAt([]byte(with), at)
	mustDo(t, err)
	mustDo(t, f.Close())
}

func TestGPUsWithoutNodeAreNotListed(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 4))
	m.removeNode(t, "nvidia1")
	lib := m.session(t)
	count, ret := lib.DeviceGetCount()
	mustBe(t, "nvmlDeviceGetCount", ret, nvml.SUCCESS)
	var got []int
	for i := range count {
		minor, ret := device(t, lib, i).GetMinorNumber()
		mustBe(t, "nvmlDeviceGetMinorNumber", ret, nvml.SUCCESS)
		got = append(got, minor)
	}
	if diff := cmp.Diff([]int{0, 2, 3}, got); diff != "" {
		t.Errorf("minors (-want +got):\n%s", diff)
	}
	_, ret = lib.DeviceGetHandleByUUID(m.Show().GPUs[1].UUID)
	mustBe(t, "nvmlDeviceGetHandleByUUID of the hidden GPU", ret, nvml.ERROR_NOT_FOUND)
}

// stranger prepares an unprivileged process in a role, which reaches the node.
func stranger(t *testing.T, m *machine, role string) *exec.Cmd {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	content, err := os.ReadFile(m.library)
	mustDo(t, err)
	mustDo(t, os.WriteFile(library, content, 0o755))
	for _, dir := range []string{filepath.Dir(library), filepath.Dir(m.Path()), m.dev} {
		openToAll(t, dir)
	}
	cmd := process(t, role)
	unprivileged(cmd)
	cmd.Env = append(cmd.Env, libraryKey+"="+library)
	return cmd
}

// observer starts an unprivileged process that reads the node. The state
// file may only be read by it.
func observer(t *testing.T, m *machine) (*json.Decoder, io.WriteCloser) {
	t.Helper()
	cmd := stranger(t, m, "observe")
	mustDo(t, os.Chmod(m.Path(), 0o444))
	stdin, err := cmd.StdinPipe()
	mustDo(t, err)
	stdout, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("unprivileged process: %v", err)
		}
	})
	return json.NewDecoder(stdout), stdin
}

func TestUnprivilegedProcess(t *testing.T) {
	forbid := func(nodes ...string) func(*testing.T, *machine) {
		return func(t *testing.T, m *machine) {
			for _, node := range nodes {
				mustDo(t, os.Chmod(filepath.Join(m.dev, node), 0))
			}
		}
	}
	tests := map[string]struct {
		change func(*testing.T, *machine)
		want   observation
	}{
		"with nodes open to all sees all GPUs": {
			forbid(), observation{Count: 2, Handles: []nvml.Return{nvml.SUCCESS, nvml.SUCCESS}},
		},
		"without nodes finds no driver": {
			func(t *testing.T, m *machine) { mustDo(t, os.RemoveAll(m.dev)); mustDo(t, os.Mkdir(m.dev, 0o755)) },
			observation{Init: nvml.ERROR_DRIVER_NOT_LOADED},
		},
		"that may not open the control node has no permission": {
			forbid("nvidiactl"), observation{Init: nvml.ERROR_NO_PERMISSION},
		},
		"that may not open a GPU's node gets no handle to it": {
			forbid("nvidia0"), observation{Count: 2, Handles: []nvml.Return{nvml.ERROR_NO_PERMISSION, nvml.SUCCESS}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("h100-80", 2))
			test.change(t, m)
			results, _ := observer(t, m)
			var got observation
			mustDo(t, results.Decode(&got))
			test.want.Write = state.ErrReadOnly.Error()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
			if calls := m.Calls(); len(calls) > 0 {
				t.Errorf("got calls %v counted by a process that may only read", calls)
			}
		})
	}
}

// nvml.h: "Requires root/admin permissions", and NO_PERMISSION for a process
// that the caller may not see.
func TestUnprivilegedProcessManagesNothing(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	out, err := stranger(t, m, "manage").Output()
	mustDo(t, err)
	var got []nvml.Return
	mustDo(t, json.Unmarshal(out, &got))
	if diff := cmp.Diff([]nvml.Return{nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_PERMISSION}, got); diff != "" {
		t.Errorf("persistence mode, compute mode, name of process 1 (-want +got):\n%s", diff)
	}
	if g := m.Show().GPUs[0]; g.Persistence || g.ComputeMode != "" {
		t.Error("a mode was changed")
	}
}

func TestEventsReachAProcessThatMayOnlyRead(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	results, stdin := observer(t, m)
	var got observation
	mustDo(t, results.Decode(&got))
	_, err := stdin.Write([]byte("wait\n"))
	mustDo(t, err)
	mustDo(t, stdin.Close())
	mustDo(t, m.PostXID(0, 48, state.NoInstance, state.NoInstance))
	mustDo(t, results.Decode(&got))
	if got.Event != 48 {
		t.Errorf("got XID %d, want 48", got.Event)
	}
}

func TestLibraryFindsTheStateBesideItself(t *testing.T) {
	for name, dir := range map[string]string{
		"in Debian's folder":   "usr/lib/x86_64-linux-gnu",
		"in Red Hat's folder":  "usr/lib64",
		"without a usr folder": "lib/x86_64-linux-gnu",
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 3))
			t.Setenv("GPU_SIM_STATE", "")
			root := t.TempDir()
			library := filepath.Join(root, dir, "libnvidia-ml.so.1")
			firmware := filepath.Join(root, "lib/firmware/nvidia/580.95.05/gsp_sim.bin")
			for from, to := range map[string]string{m.library: library, m.Path(): firmware} {
				mustDo(t, os.MkdirAll(filepath.Dir(to), 0o755))
				content, err := os.ReadFile(from)
				mustDo(t, err)
				mustDo(t, os.WriteFile(to, content, 0o755))
			}
			if got := observeWith(t, library); got.Init != nvml.SUCCESS || got.Count != 3 {
				t.Errorf("got %+v, want 3 GPUs", got)
			}
			mustDo(t, os.Remove(firmware))
			if got := observeWith(t, library); got.Init != nvml.ERROR_DRIVER_NOT_LOADED {
				t.Errorf("got %+v without state, want no driver", got)
			}
		})
	}
}

// observeWith reads the node through another copy of the library. That
// needs another process: the first one that was called stays bound.
func observeWith(t *testing.T, library string) observation {
	t.Helper()
	cmd := process(t, "observe")
	cmd.Env = append(cmd.Env, libraryKey+"="+library)
	out, err := cmd.Output()
	mustDo(t, err)
	var got observation
	mustDo(t, json.Unmarshal(out, &got))
	return got
}

func TestCallsAreCountedOverProcessesAndSessions(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	for range 2 {
		lib := m.load()
		mustBe(t, "nvmlInit", lib.Init(), nvml.SUCCESS)
		device(t, lib, 0).GetUUID()
		lib.Shutdown()
	}
	want := map[string]uint64{"nvmlInit_v2": 2, "nvmlDeviceGetHandleByIndex_v2": 2, "nvmlDeviceGetUUID": 2, "nvmlShutdown": 2}
	if diff := cmp.Diff(want, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	mustDo(t, m.ResetCalls())
	if got := m.Calls(); len(got) != 0 {
		t.Errorf("got %v after the reset, want none", got)
	}
}

func TestForcedAnswerHoldsUntilItIsEnded(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	mustDo(t, m.ForceReturn("nvmlDeviceGetName", int(nvml.ERROR_IRQ_ISSUE)))
	_, ret := d.GetName()
	mustBe(t, "nvmlDeviceGetName, forced", ret, nvml.ERROR_IRQ_ISSUE)
	_, ret = d.GetUUID()
	mustBe(t, "nvmlDeviceGetUUID", ret, nvml.SUCCESS)
	mustDo(t, m.ForceReturn("nvmlDeviceGetName", 0))
	_, ret = d.GetName()
	mustBe(t, "nvmlDeviceGetName", ret, nvml.SUCCESS)
}

func TestEveryCallTakesTheLatency(t *testing.T) {
	for _, latency := range []time.Duration{20 * time.Microsecond, 2 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 1))
			d := device(t, m.session(t), 0)
			mustDo(t, m.SetLatency(latency))
			const calls = 10
			start := time.Now()
			for range calls {
				d.GetUUID()
			}
			if took := time.Since(start); took < calls*latency {
				t.Errorf("%d calls took %s, want at least %s", calls, took, calls*latency)
			}
		})
	}
}
