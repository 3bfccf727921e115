//go:build e2e

package docker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGPUsOption gives GPUs to containers as `docker run --gpus` of Docker 20.10 to 28 does:
// the engine adds nvidia-container-runtime-hook, which it found in its PATH at its start.
func TestGPUsOption(t *testing.T) {
	e := newEngine(t, newNode(t))
	for _, name := range []string{"nvidia-container-runtime-hook", "nvidia-container-cli"} {
		if _, err := os.Stat(filepath.Join(e.root, "bin", name)); err != nil {
			t.Skipf("needs the container toolkit: %v (run: make build)", err)
		}
	}
	image := e.image("vectoradd")
	run := func(program string, options ...string) (string, error) {
		stdout, stderr, err := e.try(slices.Concat([]string{"run", "--rm", "--network=none", "--entrypoint=" + program}, options)...)
		return stdout + stderr, err
	}

	out, err := run("nvidia-smi", "--gpus=\"device=1,3\"", image, "-L")
	if got := strings.Count(out, "UUID: GPU-"); err != nil || got != 2 {
		t.Errorf("--gpus device=1,3: %d GPUs, %v: %s", got, err, out)
	}
	if out, err := run("vectoradd", "--gpus=all", image); err != nil || !strings.Contains(out, "Test PASSED") {
		t.Errorf("--gpus all: vectoradd: %v: %s", err, out)
	}
	if out, err := run("nvidia-smi", "--gpus=device=99", image, "-L"); err == nil || !strings.Contains(out, `find device "99"`) {
		t.Errorf("--gpus device=99: %v: %s", err, out)
	}
	if out, err := run("nvidia-smi", image, "-L"); err == nil {
		t.Errorf("a container without --gpus has nvidia-smi: %s", out)
	}

	// No driver serves the nodes of a simulated node: the kernel answers ENXIO where it
	// allows to open one, and EPERM where it does not.
	for node, want := range map[string]string{"/dev/nvidia1": "No such device or address", "/foreign": "Operation not permitted"} {
		out, _ := run("dd", "--gpus=device=1", "-v=/bin/dd:/bin/dd:ro", "-v=/dev/nvidia2:/foreign", image, "if="+node, "count=1")
		if !strings.Contains(out, want) {
			t.Errorf("open %s: %s, want %q", node, out, want)
		}
	}
}
