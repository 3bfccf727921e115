package apply_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// program writes an nvidia-smi that is a script.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return path
}

func TestSMI(t *testing.T) {
	gpus := []mig.GPU{{PCI: gpu.PCI{BusID: "0000:17:00.0"}}, {PCI: gpu.PCI{BusID: "0000:25:00.0"}}}
	for name, c := range map[string]struct {
		script string
		want   []string
		busy   bool
		limit  time.Duration
	}{
		"the arguments":  {`[ "$*" = "-r -i 0000:17:00.0,0000:25:00.0" ] || { echo "got $*"; exit 1; }`, nil, false, time.Minute},
		"a GPU in use":   {"echo The following GPUs could not be reset:; echo '  GPU 00000000:17:00.0: In use by another client'; exit 255", []string{"nvidia-smi -r -i 0000:17:00.0", "In use by another client"}, true, time.Minute},
		"an older word":  {`echo "Unable to reset GPU 00000000:17:00.0 because it's being used by some other process (e.g. CUDA application)."; exit 255`, []string{"being used by"}, true, time.Minute},
		"another error":  {"echo not supported >&2; exit 3", []string{"exit status 3", "not supported"}, false, time.Minute},
		"no answer":      {"echo resetting; exec sleep 60", []string{"no answer in 5s", "resetting"}, false, 5 * time.Second},
		"endless output": {"while :; do echo 0123456789; done", []string{"no answer in 200ms"}, false, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			err := apply.SMI{Program: program(t, c.script), Limit: c.limit}.Reset(t.Context(), gpus)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("Reset() = %v", err)
			}
			if errors.Is(err, apply.ErrBusy) != c.busy {
				t.Errorf("Reset() = %v, busy: %t", err, c.busy)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in the error: %v", part, err)
				}
			}
			if err != nil && len(err.Error()) > 3000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// In the node, the driver's own nvidia-smi resets a GPU, and all GPUs of a fabric.
func TestResetByTheDriver(t *testing.T) {
	for model, profile := range map[string]string{"a30": "2g.12gb", "a100-80": "7g.80gb"} {
		t.Run(model, func(t *testing.T) {
			r := newRig(t, "--gpus=2", "--model="+model)
			cmd := r.node.Command(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childKey+"="+profile, smiKey+"=1")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			if got := r.state(); !strings.HasPrefix(got[0], "true true "+profile) || got[1] != "false false" {
				t.Errorf("the GPUs are %q", got)
			}
		})
	}
}
