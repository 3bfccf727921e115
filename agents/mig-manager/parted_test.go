package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// exported is what export prints of GPUs that all have these devices.
func exported(devices ...string) string {
	const head = "version: v1\nmig-configs:\n  current:\n    - devices: all\n      mig-enabled: "
	if len(devices) == 0 {
		return head + "false\n      mig-devices: {}\n"
	}
	text := head + "true\n      mig-devices:\n"
	for _, d := range devices {
		text += "        " + d + "\n"
	}
	return text
}

// TestAUserOfMIGParted does what the scripts of mig-parted's users do.
func TestAUserOfMIGParted(t *testing.T) {
	r := newRig(t, "h100-80", 2).as("nvidia-mig-parted")
	r.prints("Selected MIG configuration is valid\n", "assert", "-f", defaults, "-c", "all-balanced", "-a")
	r.fails(1, notInForce+": GPU 0: the MIG mode is off, but the config wants it on; GPU 1: ", "assert", "-f", defaults, "-c", "all-balanced", "-m")
	r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced", "-m")
	r.prints(modeInForce, "assert", "-f", defaults, "-c", "all-balanced", "-m")
	r.fails(1, "GPU 0: it has no devices, but the config wants 3g.40gb + 2g.20gb + 2 × 1g.10gb", "assert", "-f", defaults, "-c", "all-balanced")
	r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced")
	r.prints(inForce, "assert", "-f", defaults, "-c", "all-balanced")
	balanced := exported("1g.10gb: 2", "2g.20gb: 1", "3g.40gb: 1")
	r.prints(balanced, "export")

	checkpoint := filepath.Join(t.TempDir(), "checkpoint.json")
	r.prints("MIG configuration checkpointed successfully\n", "checkpoint", "-f", checkpoint)
	places := r.Run("mig list --json")
	r.prints(applied, "apply", "-f", defaults, "-c", "all-disabled")
	r.prints(exported(), "export")
	r.prints(restored, "restore", "-f", checkpoint)
	if again := r.Run("mig list --json"); string(again) != string(places) {
		t.Errorf("the restored instances are\n%swere\n%s", again, places)
	}
	r.untouched(func() {
		r.prints(restored, "restore", "-f", checkpoint)
		r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced")
	})

	t.Setenv("MIG_PARTED_CONFIG_FILE", defaults)
	t.Setenv("MIG_PARTED_SELECTED_CONFIG", "all-1g.10gb")
	r.prints(applied, "apply")
	r.prints(inForce, "assert")
	t.Setenv("MIG_PARTED_OUTPUT_FORMAT", "json")
	t.Setenv("MIG_PARTED_CONFIG_LABEL", "mine")
	if got := r.prints("{\n  \"version\": \"v1\",\n  \"mig-configs\": {\n    \"mine\": [\n      {\n        \"devices\": \"all\",\n        \"mig-enabled\": true,\n"+
		"        \"mig-devices\": {\n          \"1g.10gb\": 7\n        }\n      }\n    ]\n  }\n}\n", "export"); got.errs != "" {
		t.Errorf("export logs %s", got.errs)
	}
}

// TestAllDefaultConfigs applies each entry that selects the GPU, from the one before, to a
// board of each kind: of 4 and of 7 compute slices, with a reset and without.
func TestAllDefaultConfigs(t *testing.T) {
	for _, model := range []string{"a30", "a100-80", "h200"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, model, 1)
			generated := filepath.Join(t.TempDir(), "generated.yaml")
			r.prints("", "generate-config", "-f", generated)
			data, err := os.ReadFile(generated)
			assert.NilError(t, err)
			names := 0
			for line := range strings.Lines(string(data)) {
				name, is := strings.CutPrefix(line, "  all-")
				if name = strings.TrimSuffix("all-"+name, ":\n"); !is {
					continue
				}
				names++
				r.prints(applied, "apply", "-f", defaults, "-c", name)
				r.prints(inForce, "assert", "-f", generated, "-c", name)
			}
			if names < 8 {
				t.Errorf("%d configs were generated:\n%s", names, data)
			}
		})
	}
}

func TestInput(t *testing.T) {
	r := newRig(t, "h100-80", 1)
	const config = "version: v1\nmig-configs: {x: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 3, 1g.10gb+me: 1}}]}\n"
	if got := r.with(config, "apply", "-f", "-"); got.code != 0 || got.out != applied {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.errs)
	}
	r.prints(exported("1c.3g.40gb: 3", "1g.10gb+me: 1"), "export")
	saved := r.do("checkpoint", "-f", "-")
	if got := r.with(saved.out, "restore", "-f", "-"); got.code != 0 || got.out != restored {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.errs)
	}
	// A file that is a pipe must not be replaced by a file.
	r.prints(saved.out+"MIG configuration checkpointed successfully\n", "checkpoint", "-f", "/dev/stdout")
}

func TestAPlanOfASnapshotIsThatOfTheNode(t *testing.T) {
	r := newRig(t, "h100-80", 2)
	config := r.config("devices: [1], mig-enabled: true, mig-devices: {2g.20gb: 2}", "devices: [0], mig-enabled: false")
	r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced")
	r.untouched(func() {
		snapshot := r.do("snapshot").out
		of := r.with(snapshot, "plan", "-f", config, "--snapshot", "-", "--draw")
		on := r.do("plan", "-f", config, "--draw")
		if of.code != 0 || of.out != on.out || !strings.Contains(on.out, "turn the MIG mode off") || !strings.Contains(on.out, "create GPU instance 2g.20gb at ") {
			t.Errorf("of the snapshot:\n%sof the node:\n%s%s", of.out, on.out, on.errs)
		}
	})
}
