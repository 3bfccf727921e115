package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
)

// TestWhatCannotBeDoneChangesNothing lists mistakes of users. The GPUs stay as they are.
func TestWhatCannotBeDoneChangesNothing(t *testing.T) {
	r := newRig(t, "h100-80", 2)
	r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced")
	before := r.devices()
	for name, tc := range map[string]struct {
		config string
		want   string
	}{
		"devices that do not fit": {
			r.config("devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}"),
			"plan MIG layout of GPUs 0, 1: fit 2 × 3g.40gb + 1g.10gb on one GPU: 1g.10gb is too much: 9 memory slices are needed, and the GPU has 8",
		},
		"one GPU of two": {
			r.config("devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}", "devices: [1], mig-enabled: true, mig-devices: {1g.10gb: 8}"),
			"plan MIG layout of GPU 1 (",
		},
		"a profile of another board": {
			r.config("devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1}"), "the GPU has no profile 1g.5gb, the nearest are 1g.10gb",
		},
		"a GPU that is not there": {
			r.config("devices: [0, 2], mig-enabled: false"), "mig-configs.x[0]: the node has no GPU 2: it has GPUs 0 to 1 (0x233010DE, NVIDIA H100 80GB HBM3)",
		},
		"items that overlap": {
			r.config("devices: all, mig-enabled: false", "devices: [1], mig-enabled: true, mig-devices: {}"), "GPU 1 is selected twice, and with different MIG devices",
		},
		"another product": {
			r.config("devices: all, device-filter: 0x20B710DE, mig-enabled: false"), "selects no GPU of the node",
		},
		"a malformed filter": {
			r.config("devices: all, device-filter: 0x20B7, mig-enabled: false"), `invalid device filter "0x20B7": must be the PCI device and vendor`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			r.t = t
			r.untouched(func() { r.fails(1, tc.want, "apply", "-f", tc.config) })
		})
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, syscall.Mkfifo(pipe, 0o600))
	r.fails(1, "it is a named pipe", "apply", "-f", pipe)
	r.fails(1, "flag --snapshot (environment variable MIG_PARTED_SNAPSHOT): open /dev/zero: it is a device", "plan", "-f", defaults, "-c", "all-disabled", "--snapshot", "/dev/zero")
	r.fails(2, "flag --config-file (environment variable MIG_PARTED_CONFIG_FILE): is missing", "apply")
	r.as("nvidia-mig-parted").fails(1, "flag --config-file (environment variable MIG_PARTED_CONFIG_FILE): is missing", "apply")
	if after := r.devices(); after != before {
		t.Errorf("the GPUs have\n%shad\n%s", after, before)
	}
}

func TestAnInstanceInUseIsNotTaken(t *testing.T) {
	r := newRig(t, "h100-80", 2)
	r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced")
	busy := exec.CommandContext(t.Context(), "sleep", "1000")
	assert.NilError(t, busy.Start())
	defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	pid := strconv.Itoa(busy.Process.Pid)
	r.Run("proc add", "--pid", pid, "--instance", "2/0", "1")
	holder := "process " + pid + " (sleep)"
	r.untouched(func() {
		r.fails(1, "GPU 1 (GPU-", "apply", "-f", defaults, "-c", "all-1g.10gb")
		r.fails(1, "is in use by "+holder, "apply", "-f", defaults, "-c", "all-disabled")
		if got := r.do("plan", "-f", defaults, "-c", "all-1g.10gb"); got.code != 0 || !strings.Contains(got.out, "in use by: "+holder) {
			t.Errorf("exit code %d:\n%s%s", got.code, got.out, got.errs)
		}
	})
	// The other instances of the GPU are nobody's.
	config := r.config("devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 4}")
	if got := r.do("apply", "-f", config); got.code != 0 {
		t.Errorf("an instance in use that stays holds up the change of others: %s", got.errs)
	}
}

func TestALostGPUDoesNotHoldUpTheOthers(t *testing.T) {
	r := newRig(t, "h100-80", 3)
	r.Run("lose", "1")
	r.fails(1, "GPU 1 cannot be read: ", "apply", "-f", defaults, "-c", "all-7g.80gb")
	if got := r.do("export"); !strings.Contains(got.out, "- devices: [0, 2]\n      mig-enabled: true\n      mig-devices:\n        7g.80gb: 1\n") ||
		!strings.Contains(got.errs, "cannot read gpu, leaving it out") {
		t.Errorf("exported\n%s%s", got.out, got.errs)
	}
	others := r.config("devices: [0, 2], mig-enabled: true, mig-devices: {7g.80gb: 1}")
	r.prints(inForce, "assert", "-f", others)
	r.fails(1, notInForce+": GPU 1: the config does not select it", "assert", "-f", others, "--all-gpus")
	r.fails(1, "GPU 1 cannot be read: ", "assert", "-f", defaults, "-c", "all-7g.80gb")
	r.fails(2, "GPU 1 cannot be read: ", "assert", "-f", defaults, "-c", "all-7g.80gb", "--exit-codes", "detailed")
	r.fails(1, notInForce, "assert", "-f", r.config("devices: [0], mig-enabled: false"), "--exit-codes", "detailed")
	r.fails(1, "checkpoint GPU 1: ", "checkpoint", "-f", "-")
}

func TestAModeThatNeedsAReset(t *testing.T) {
	r := newRig(t, "a100-40", 1)
	r.prints(applied, "apply", "-f", defaults, "-c", "all-1g.5gb", "-m", "-s")
	r.fails(1, "GPU 0: the MIG mode is off until it is reset, but the config wants it on", "assert", "-f", defaults, "-c", "all-1g.5gb", "-m")
	r.fails(1, "GPU 0 has no MIG devices yet, because its MIG mode turns on at the next reset and --skip-reset is set", "apply", "-f", defaults, "-c", "all-1g.5gb", "-s")
	r.Run("reset", "0")
	r.prints(modeInForce, "assert", "-f", defaults, "-c", "all-1g.5gb", "-m")
	r.prints(applied, "apply", "-f", defaults, "-c", "all-1g.5gb")
	// Without --skip-reset, the GPU is reset.
	r.prints(applied, "apply", "-f", defaults, "-c", "all-disabled")
	r.prints(applied, "apply", "-f", defaults, "-c", "all-1g.5gb")
	r.prints(exported("1g.5gb: 7"), "export")
}

// noted has hooks that write to a file what runs, and what the GPUs have then.
func noted(t *testing.T, fails string) (hooks, notes string) {
	t.Helper()
	dir := t.TempDir()
	hooks, notes = filepath.Join(dir, "hooks.yaml"), filepath.Join(dir, "notes")
	text := "version: v1\nhooks:\n"
	for _, point := range []string{"apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"} {
		command := "echo " + point + " $MIG_PARTED_SELECTED_CONFIG $MIG_PARTED_MODE_CHANGE_ONLY >> " + notes
		if point == fails {
			command += "; exit 1"
		}
		text += "  " + point + ":\n  - {command: /bin/sh, args: [-c, '" + command + "']}\n"
	}
	assert.NilError(t, os.WriteFile(hooks, []byte(text), 0o600))
	return hooks, notes
}

func TestHooksRunInOrder(t *testing.T) {
	r := newRig(t, "h100-80", 1)
	for _, tc := range []struct {
		fails string
		args  []string
		want  []string
	}{
		{"apply-start", []string{"-c", "all-1g.10gb"}, []string{"apply-start all-1g.10gb false", "apply-exit all-1g.10gb false"}},
		{"pre-apply-mode", []string{"-c", "all-1g.10gb"}, []string{"apply-start all-1g.10gb false", "pre-apply-mode all-1g.10gb false", "apply-exit all-1g.10gb false"}},
		{"", []string{"-c", "all-1g.10gb", "-m"}, []string{"apply-start all-1g.10gb true", "pre-apply-mode all-1g.10gb true", "apply-exit all-1g.10gb true"}},
		{"pre-apply-config", []string{"-c", "all-1g.10gb"}, []string{"apply-start all-1g.10gb false", "pre-apply-config all-1g.10gb false", "apply-exit all-1g.10gb false"}},
		{"", []string{"-c", "all-1g.10gb"}, []string{"apply-start all-1g.10gb false", "pre-apply-config all-1g.10gb false", "apply-exit all-1g.10gb false"}},
		{"pre-apply-config", []string{"-c", "all-1g.10gb"}, []string{"apply-start all-1g.10gb false", "apply-exit all-1g.10gb false"}},
		{"apply-exit", []string{"-c", "all-2g.20gb"}, []string{"apply-start all-2g.20gb false", "pre-apply-config all-2g.20gb false", "apply-exit all-2g.20gb false"}},
		{"", []string{"-c", "all-disabled"}, []string{"apply-start all-disabled false", "pre-apply-mode all-disabled false", "apply-exit all-disabled false"}},
	} {
		hooks, notes := noted(t, tc.fails)
		before := r.devices()
		got := r.do(append([]string{"apply", "-f", defaults, "-k", hooks}, tc.args...)...)
		ran, err := os.ReadFile(notes)
		if err != nil || strings.TrimSpace(string(ran)) != strings.Join(tc.want, "\n") {
			t.Errorf("%q ran\n%swant\n%s\n%v", tc.args, ran, strings.Join(tc.want, "\n"), err)
		}
		failed := tc.fails != "" && strings.Contains(string(ran), tc.fails)
		if failed != (got.code == 1) || failed != strings.Contains(got.errs, "hook "+tc.fails+" /bin/sh: exit status 1: ") {
			t.Errorf("%q with a failing hook %q: exit code %d: %s", tc.args, tc.fails, got.code, got.errs)
		}
		if failed && tc.fails != "apply-exit" && r.devices() != before {
			t.Errorf("the GPUs were changed after the hook %s had failed", tc.fails)
		}
	}
}

// TestASignalEndsTheHookAndTheApply stops an apply while a hook runs. What the hooks have
// begun is ended by those of apply-exit.
func TestASignalEndsTheHookAndTheApply(t *testing.T) {
	r := newRig(t, "h100-80", 1)
	hooks, notes := noted(t, "")
	text, err := os.ReadFile(hooks)
	assert.NilError(t, err)
	text = bytes.Replace(text, []byte("  pre-apply-mode:\n"), []byte("  pre-apply-mode:\n  - {command: /bin/sh, args: [-c, echo waiting; sleep 1000]}\n"), 1)
	assert.NilError(t, os.WriteFile(hooks, text, 0o600))
	cmd := agenttest.Command(t, r.Node, "apply", "-f", defaults, "-c", "all-1g.10gb", "-k", hooks, "--run-root", r.run, "--state-dir", r.state)
	p := agenttest.Start(t, cmd)
	p.Said("line=waiting")
	p.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the apply ended with %v, want exit code 1", err)
	}
	ran, err := os.ReadFile(notes)
	if want := "apply-start all-1g.10gb false\napply-exit all-1g.10gb false\n"; err != nil || string(ran) != want {
		t.Errorf("the hooks ran\n%swant\n%s%v", ran, want, err)
	}
	if !strings.Contains(p.Log.String(), "mig-manager: hook pre-apply-mode /bin/sh: terminated signal received\n") {
		t.Error("the error does not name the hook")
	}
	r.prints(exported(), "export")
}
