package ctk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/oci"
)

// showDriver is a hook that puts the driver's folder into the /proc of a container, where
// it is on hardware. The simulated driver has it in the mounts of the node only.
func showDriver() error {
	state, err := oci.ReadState(os.Stdin)
	if err != nil {
		return err
	}
	return exec.CommandContext(context.Background(), "nsenter", "-t", fmt.Sprint(state.PID), "-m",
		"mount", "--bind", "/proc/driver", filepath.Join(state.Bundle, "rootfs/proc/driver")).Run()
}

// container is an OCI bundle on a node, started with nvidia-container-runtime and runc.
type container struct {
	*host
	bundle string
}

// newContainer returns a container of an image with vectoradd, on a node with CDI specs
// whose hook is ours.
func newContainer(t *testing.T) *container {
	t.Helper()
	c := &container{host: newHost(t), bundle: t.TempDir()}
	runc := filepath.Join(c.Bin, "cluster-components/runc")
	if _, err := os.Stat(runc); err != nil {
		if runc, err = exec.LookPath("runc"); err != nil {
			t.Skip("this machine has no runc")
		}
	}
	for from, to := range map[string]string{
		filepath.Join(c.Bin, "vectoradd"): "bin/vectoradd",
		"/lib/x86_64-linux-gnu/libc.so.6": "lib/x86_64-linux-gnu/libc.so.6",
		"/lib64/ld-linux-x86-64.so.2":     "lib64/ld-linux-x86-64.so.2",
	} {
		data, err := os.ReadFile(from)
		assert.NilError(t, err)
		c.write(filepath.Join("rootfs", to), data, 0o755)
	}
	c.write("config.toml", fmt.Appendf(nil, "[nvidia-container-runtime]\nruntimes = [%q]\nmodes.cdi.spec-dirs = [%q]\n", runc, c.bundle), 0o600)
	c.write("rootfs/etc/debian_version", []byte("12.0\n"), 0o600)
	if _, stderr, err := c.ctk("cdi", "generate", "--output", filepath.Join(c.bundle, "nvidia.json"),
		"--nvidia-cdi-hook-path", filepath.Join(c.dir, "nvidia-cdi-hook"), "--enable-hook", "prepare-container"); err != nil {
		t.Fatal(err, stderr)
	}
	return c
}

func (c *container) write(name string, data []byte, mode os.FileMode) {
	c.t.Helper()
	path := filepath.Join(c.bundle, name)
	assert.NilError(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(c.t, os.WriteFile(path, data, mode))
}

// run runs a command in the container with variables.
func (c *container) run(env []string, args ...string) (string, error) {
	c.t.Helper()
	id := "shim-" + filepath.Base(filepath.Dir(c.bundle))
	data, err := json.Marshal(&specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{Cwd: "/", Args: args, Env: append(env, "PATH=/bin")},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
		},
		Hooks: &specs.Hooks{Prestart: []specs.Hook{{Path: filepath.Join(c.dir, "hardware"), Args: []string{"hardware"}}}}, //nolint:staticcheck // it needs the container's process
		Linux: &specs.Linux{
			CgroupsPath: "/" + id,
			Namespaces:  []specs.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}},
			Resources:   &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	})
	assert.NilError(c.t, err)
	c.write("config.json", data, 0o600)
	runtime := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := c.Command(ctx, filepath.Join(c.dir, "nvidia-container-runtime"), append([]string{"--root", filepath.Join(c.bundle, "state")}, args...)...)
		cmd.Env = append(cmd.Environ(), "NVIDIA_CTK_CONFIG_FILE_PATH="+filepath.Join(c.bundle, "config.toml"))
		return cmd
	}
	c.t.Cleanup(func() { _ = runtime(context.WithoutCancel(c.t.Context()), "delete", "--force", id).Run() })
	cmd := runtime(c.t.Context(), "run", "--bundle", c.bundle, id)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// The whole way: nvidia-ctk writes the specs, the runtime changes the container, the hook
// prepares it, and a CUDA program computes on the GPU that the container asked for.
func TestContainersOfTheRuntime(t *testing.T) {
	c := newContainer(t)
	for name, env := range map[string][]string{
		"a GPU":        {"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_REQUIRE_CUDA=cuda>=12.0"},
		"a MIG device": {"NVIDIA_VISIBLE_DEVICES=1:0"},
		"a PCI bus ID": {"NVIDIA_VISIBLE_DEVICES=" + c.busID()},
	} {
		if out, err := c.run(env, "/bin/vectoradd"); err != nil || !strings.Contains(out, "PASSED") {
			t.Errorf("vectoradd with %s prints %s, %v", name, out, err)
		}
	}
	smi, err := c.run([]string{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=utility"}, "/usr/bin/nvidia-smi", "-L")
	if err != nil || strings.Count(smi, "UUID: GPU-") != 1 || !strings.HasPrefix(smi, "GPU 0: ") {
		t.Errorf("nvidia-smi with the first GPU prints %s, %v", smi, err)
	}
	for name, r := range map[string]struct {
		env  []string
		want string
	}{
		"a container without GPU":             {nil, "libcuda"},
		"a GPU, but no compute capability":    {[]string{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=utility"}, "libcuda"},
		"a driver that is too old":            {[]string{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_REQUIRE_CUDA=cuda>=99"}, "does not meet NVIDIA_REQUIRE_CUDA=cuda>=99"},
		"a GPU that the node does not have":   {[]string{"NVIDIA_VISIBLE_DEVICES=9"}, "unresolvable CDI devices nvidia.com/gpu=9"},
		"the management kind, as an ordinary": {[]string{"NVIDIA_VISIBLE_DEVICES=management.nvidia.com/gpu=all"}, "the container needs the capability CAP_SYS_ADMIN"},
	} {
		if out, err := c.run(r.env, "/bin/vectoradd"); err == nil || !strings.Contains(out, r.want) {
			t.Errorf("vectoradd in %s prints %s, %v, want %q", name, out, err, r.want)
		}
	}
}

// busID returns the PCI bus ID of a GPU of the node.
func (c *container) busID() string {
	c.t.Helper()
	out, err := c.Command(c.t.Context(), "ls", "/proc/driver/nvidia/gpus").Output()
	assert.NilError(c.t, err)
	id, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(id)
}
