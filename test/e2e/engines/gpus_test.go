//go:build e2e

package engines_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// way is a way to ask an engine for GPUs.
type way struct {
	// options ask for the GPUs with these names.
	options func(names ...string) []string
	// visible is the container's NVIDIA_VISIBLE_DEVICES: a CDI spec sets it, so that nothing
	// adds the GPUs a second time.
	visible string
	// unknown is in the error for a GPU that the node does not have.
	unknown string
	// open says that the user may open the device nodes of the host, as without a
	// container: no device cgroup decides for a user who is not root.
	open bool
}

// device returns the options for devices of the CDI spec.
func device(names ...string) []string {
	var out []string
	for _, name := range names {
		out = append(out, "--device=nvidia.com/gpu="+name)
	}
	return out
}

// gpusOption returns Docker's option --gpus.
func gpusOption(names ...string) []string {
	if names[0] == "all" {
		return []string{"--gpus=all"}
	}
	return []string{`--gpus="device=` + strings.Join(names, ",") + `"`}
}

// variable returns the options for the runtime.
func variable(names ...string) []string {
	return []string{"--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=" + strings.Join(names, ",")}
}

// What decides about GPUs says so of one that it does not know.
const (
	unknownToHook = `find device "99"`
	unknownToCDI  = "unresolvable CDI devices nvidia.com/gpu=99"
)

// look prints the GPUs that a container sees, its device nodes of GPUs, and what happens
// when it opens them, one of another GPU that somebody mounted, and one that it makes.
const look = `echo visible $NVIDIA_VISIBLE_DEVICES
nvidia-smi -L
cd /dev
echo nodes nvidia[0-9]*
/busybox mknod made c 195 2
for node in nvidia[0-9]* foreign made; do /busybox dd if=$node count=1; done
true`

// gives checks that containers get the GPUs that they ask for, and no others.
func (e *engine) gives(t *testing.T, n *node, w way) {
	t.Helper()
	image := e.image("vectoradd")
	shell := func(script string, options ...string) (string, error) {
		stdout, stderr, err := e.once(slices.Concat([]string{
			"--network=none", "--user=0", "-v=/bin/busybox:/busybox:ro", "-v=/dev/nvidia2:/dev/foreign", "--entrypoint=/busybox",
		}, options, []string{image, "sh", "-c", script})...)
		return stdout + stderr, err
	}
	out, err := shell(look, w.options("1", "3")...)
	if err != nil {
		t.Fatalf("a container with GPUs: %v: %s", err, out)
	}
	if got, want := regexp.MustCompile(`GPU-[0-9a-f-]+`).FindAllString(out, -1), n.uuids(t, 1, 3); !slices.Equal(got, want) {
		t.Errorf("nvidia-smi shows the GPUs %v, want %v", got, want)
	}
	// No driver serves the nodes of a simulated node: the kernel answers ENXIO where it
	// allows to open one, and EPERM where it does not.
	const allowed, denied = "No such device or address", "Operation not permitted"
	foreign := denied
	if w.open {
		foreign = allowed
	}
	for _, want := range []string{"visible " + w.visible + "\n", "nodes nvidia1 nvidia3\n", "'nvidia1': " + allowed, "'nvidia3': " + allowed, "'foreign': " + foreign} {
		if !strings.Contains(out, want) {
			t.Errorf("a container with GPUs 1 and 3 lacks %q: %s", want, out)
		}
	}
	if strings.Contains(out, "'made': "+allowed) {
		t.Errorf("a container with GPUs 1 and 3 opened GPU 2: %s", out)
	}

	all, stderr, err := e.once(slices.Concat([]string{"--network=none", "--read-only"}, w.options("all"), []string{image})...)
	if err != nil || !strings.Contains(all, "Test PASSED") {
		t.Errorf("vectoradd: %v: %s%s", err, all, stderr)
	}
	if out, err := shell("nvidia-smi -L", w.options("all")...); err != nil || strings.Count(out, "GPU-") != gpus {
		t.Errorf("all GPUs: %v, want %d of them: %s", err, gpus, out)
	}
	if out, err := shell("nvidia-smi -L", w.options("99")...); err == nil || !strings.Contains(out, w.unknown) {
		t.Errorf("GPU 99: %v, want %q in: %s", err, w.unknown, out)
	}
	if out, err := shell("nvidia-smi -L"); err == nil {
		t.Errorf("a container that asks for nothing has nvidia-smi: %s", out)
	}
}
