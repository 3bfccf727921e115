package prestart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/containercli"
	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/prestart"
	"outrigger.dev/agents/container-toolkit/internal/shim"
)

// The tests of this file run containers with runc on a simulated node. The hook and
// nvidia-container-cli are this test's own binary under their names, and so is the program
// in the container that tells what it can do.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-container-runtime-hook", "nvidia-container-toolkit":
		os.Exit(prestart.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	case "nvidia-container-runtime.legacy":
		os.Exit(shim.Main(syscall.Exec))
	case "nvidia-container-cli":
		os.Exit(containercli.Main(os.Args, os.Stdout, os.Stderr))
	case "probe":
		probe(os.Args[1:])
		return
	case "hardware":
		showDriver()
		return
	}
	os.Exit(m.Run())
}

// probe prints what a container sees of folders, or, without any, what it can do with the
// device nodes of all GPUs: those that it has, and those that it makes.
func probe(folders []string) {
	for _, f := range folders {
		_ = filepath.WalkDir(f, func(p string, d fs.DirEntry, err error) error {
			fmt.Println(p, err)
			return nil
		})
	}
	if len(folders) > 0 {
		return
	}
	if err := os.Mkdir("/made", 0o755); err != nil {
		fmt.Println("mkdir:", err)
	}
	for minor := range gpus {
		name := fmt.Sprintf("nvidia%d", minor)
		fmt.Printf("%s %s\n", name, open("/dev/"+name))
		made := "/made/" + name
		if err := syscall.Mknod(made, syscall.S_IFCHR|0o666, 195<<8|minor); err != nil {
			fmt.Println("mknod:", err)
		}
		fmt.Printf("made-%s %s\n", name, open(made))
	}
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-modeset"} {
		fmt.Printf("%s %s\n", name, open("/dev/"+name))
	}
}

// showDriver is a hook that puts the driver's folder into the /proc of a container, where
// it is on hardware. The simulated driver has it in the mounts of the node only.
func showDriver() {
	state, err := oci.ReadState(os.Stdin)
	if err == nil {
		_, err = os.Stat("/proc/driver/nvidia")
	}
	if err == nil {
		err = exec.CommandContext(context.Background(), "nsenter", "-t", fmt.Sprint(state.PID), "-m",
			"mount", "--bind", "/proc/driver", filepath.Join(state.Bundle, "rootfs/proc/driver")).Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open says what the kernel answers: no driver serves the nodes of a simulated node, so
// that ENXIO means that the container may open one.
func open(node string) string {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	switch {
	case err == nil:
		f.Close()
		return "opened"
	case strings.Contains(err.Error(), syscall.ENXIO.Error()):
		return "allowed"
	case strings.Contains(err.Error(), syscall.EPERM.Error()):
		return "denied"
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	}
	return err.Error()
}

func visible(devices string) []string { return []string{"NVIDIA_VISIBLE_DEVICES=" + devices} }

func TestContainerGetsTheGPUsThatItAsksFor(t *testing.T) {
	b := newBundle(t)
	out := b.must(visible("1,"+strings.ToUpper(b.uuid(3))), "/bin/probe")
	assert.Equal(t, out, `nvidia0 missing
made-nvidia0 denied
nvidia1 allowed
made-nvidia1 allowed
nvidia2 missing
made-nvidia2 denied
nvidia3 allowed
made-nvidia3 allowed
nvidiactl allowed
nvidia-uvm allowed
nvidia-modeset missing
`)
	smi := b.must(visible("1,"+b.uuid(3)), "nvidia-smi", "-L")
	assert.Equal(t, strings.Count(smi, "UUID: GPU-"), 2, smi)
	assert.Assert(t, strings.Contains(smi, b.uuid(1)) && strings.Contains(smi, b.uuid(3)), smi)
	assert.Assert(t, strings.Contains(b.must(visible("all"), "/bin/vectoradd"), "Test PASSED"))
}

// A device node in the container is that of the host: its owner is root, who in most
// containers is the user of the program.
func TestContainerCannotChangeTheNodesOfTheHost(t *testing.T) {
	b := newBundle(t)
	b.copyProgram("/bin/chmod")
	for _, node := range []string{"/dev/nvidia0", "/dev/nvidiactl"} {
		out, err := b.run(visible("0"), "/bin/chmod", "000", node)
		assert.Assert(t, err != nil, out)
		assert.Assert(t, strings.Contains(out, "Read-only file system"), out)
		assert.Equal(t, string(b.onNode("stat", "-c%a", node)), "666\n")
	}
}

func TestContainerWithoutGPUs(t *testing.T) {
	b := newBundle(t)
	for name, env := range map[string][]string{
		"that asks for nothing": nil,
		"that asks for void":    visible("void"),
	} {
		t.Run(name, func(t *testing.T) {
			out := b.must(env, "/bin/probe")
			assert.Assert(t, !strings.Contains(out, "allowed"), out)
			assert.Assert(t, strings.Contains(out, "nvidiactl missing"), out)
		})
	}
}

func TestContainerIsNotStarted(t *testing.T) {
	b := newBundle(t)
	for name, tc := range map[string]struct {
		env  []string
		want string
	}{
		"with a GPU that is not there":       {visible("9"), "none of the 4 GPUs of the node has this name"},
		"with a requirement that is not met": {append(visible("0"), "NVIDIA_REQUIRE_CUDA=cuda>=99.0"), "cuda is 13.0"},
		"with an unknown capability":         {append(visible("0"), "NVIDIA_DRIVER_CAPABILITIES=compute,sound"), "sound"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := b.run(tc.env, "/bin/probe")
			assert.Assert(t, err != nil, out)
			assert.Assert(t, strings.Contains(out, tc.want), out)
			assert.Assert(t, !strings.Contains(out, "nvidia0 "), out)
		})
	}
}

func TestContainerSeesItsOwnGPUsInProc(t *testing.T) {
	b := newBundle(t)
	ids := strings.Fields(string(b.onNode("ls", "/proc/driver/nvidia/gpus")))
	out := b.must(visible("2"), "/bin/probe", "/proc/driver/nvidia")
	for i, id := range ids {
		assert.Equal(t, strings.Contains(out, id), i == 2, out)
	}
	for _, name := range []string{"version", "params", "registry", "gpus/" + ids[2] + "/information"} {
		assert.Assert(t, strings.Contains(out, "/proc/driver/nvidia/"+name+" <nil>"), "%s is missing in %s", name, out)
	}
	assert.Assert(t, strings.Contains(string(b.onNode("cat", "/proc/driver/nvidia/params")), "ModifyDeviceFiles: 1"))
	b.copyProgram("/bin/cat")
	b.copyProgram("/bin/touch")
	assert.Assert(t, strings.Contains(b.must(visible("2"), "/bin/cat", "/proc/driver/nvidia/params"), "ModifyDeviceFiles: 0"))
	out, err := b.run(visible("2"), "/bin/touch", "/proc/driver/nvidia/new")
	assert.Assert(t, err != nil && strings.Contains(out, "Read-only file system"), out)
}

func TestContainerGetsMIGDevices(t *testing.T) {
	b := newBundle(t)
	b.node.Run("mig mode", "1", "on")
	b.node.Run("mig create", "1", "1g.10gb", "2g.20gb")
	var gpus []struct {
		GPUInstances []struct {
			Minor            int
			ComputeInstances []struct {
				UUID  string
				Minor int
			}
		}
	}
	assert.NilError(t, json.Unmarshal(b.node.Run("mig list", "--json", "1"), &gpus))
	own, other := gpus[0].GPUInstances[0], gpus[0].GPUInstances[1]
	id := own.ComputeInstances[0].UUID
	caps := fmt.Sprint("/dev/nvidia-caps/nvidia-cap", own.Minor)

	out := b.must(visible("1"), "nvidia-smi", "-L")
	assert.Equal(t, strings.Count(out, "UUID: MIG-"), 2, "a GPU comes with all of its MIG devices: %s", out)

	out, err := b.run(visible(id), "nvidia-smi", "-L")
	assert.Assert(t, err != nil && strings.Contains(out, "there is no CDI spec of kind nvidia.com/gpu"), out)

	b.spec1("nvidia.com-gpu.json", id, "/dev/nvidia1", caps, fmt.Sprint("/dev/nvidia-caps/nvidia-cap", own.ComputeInstances[0].Minor))
	out = b.must(visible(id), "nvidia-smi", "-L")
	assert.Equal(t, strings.Count(out, "UUID: MIG-"), 1, out)
	assert.Assert(t, strings.Contains(out, id), out)

	out = b.must(visible(strings.ToLower(id)), "/bin/probe", "/dev/nvidia-caps", "/proc/driver/nvidia/capabilities")
	assert.Equal(t, strings.Count(out, "/dev/nvidia-caps/nvidia-cap"), 2, out)
	assert.Assert(t, strings.Contains(out, caps+" "), out)
	assert.Equal(t, strings.Count(out, "/access <nil>"), 2, out)
	assert.Assert(t, !strings.Contains(out, fmt.Sprint("nvidia-cap", other.Minor)), out)

	b.node.Run("mig destroy", "1", "all")
	out, err = b.run(visible(id), "nvidia-smi", "-L")
	assert.Assert(t, err != nil && strings.Contains(out, "an instance that no longer exists"), out)
}

// TestHookMakesMissingNodes has a node on which no program has used the GPU yet.
func TestHookMakesMissingNodes(t *testing.T) {
	b := newBundle(t)
	b.onNode("rm", "/dev/nvidia2", "/dev/nvidia-uvm")
	out := b.must(visible("2"), "/bin/probe")
	assert.Assert(t, strings.Contains(out, "\nnvidia2 allowed\n"), out)
	assert.Assert(t, strings.Contains(out, "\nnvidia-uvm allowed\n"), out)
}

// TestContainerInAUserNamespace has a container whose root user is another one on the
// host, as with the option userns-remap of Docker.
func TestContainerInAUserNamespace(t *testing.T) {
	b := newBundle(t)
	const id = 200_000
	assert.NilError(t, os.Chmod(filepath.Dir(b.dir), 0o755))
	assert.NilError(t, filepath.WalkDir(filepath.Join(b.dir, "rootfs"), func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, id, id))
	}))
	// Where something is mounted in /proc, as on the simulated node, another user may not
	// mount a new one.
	b.spec.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.UserNamespace}}
	b.spec.Mounts[0] = specs.Mount{Destination: "/proc", Type: "bind", Source: "/proc", Options: []string{"rbind", "rprivate"}}
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: id, Size: 65_536}}
	b.spec.Linux.UIDMappings, b.spec.Linux.GIDMappings = ids, ids
	out := b.must(visible("0,3"), "nvidia-smi", "-L")
	assert.Equal(t, strings.Count(out, "UUID: GPU-"), 2, out)
	assert.Assert(t, strings.Contains(b.must(visible("0,3"), "/bin/vectoradd"), "Test PASSED"))
	info, err := os.Stat(filepath.Join(b.dir, "rootfs/etc/ld.so.cache"))
	assert.NilError(t, err)
	assert.Equal(t, info.Sys().(*syscall.Stat_t).Uid, uint32(id), "what is written belongs to the container")
}

// TestRuntimeInTheModeLegacy has a container without a hook: the runtime adds it.
func TestRuntimeInTheModeLegacy(t *testing.T) {
	b := newBundle(t)
	b.spec.Hooks.Prestart = b.spec.Hooks.Prestart[:1] //nolint:staticcheck // what Docker uses
	b.write("config.toml", fmt.Sprintf("[nvidia-container-cli]\npath = %q\n[nvidia-container-runtime]\nruntimes = [%q]\n[nvidia-container-runtime-hook]\npath = %q\n",
		filepath.Join(b.dir, "nvidia-container-cli"), b.runc, filepath.Join(b.dir, "nvidia-container-runtime-hook")))
	t.Setenv("NVIDIA_CTK_CONFIG_FILE_PATH", filepath.Join(b.dir, "config.toml"))
	b.runc = filepath.Join(b.dir, "nvidia-container-runtime.legacy")
	out := b.must(visible("1"), "/bin/probe")
	assert.Assert(t, strings.Contains(out, "\nnvidia1 allowed\nmade-nvidia1 allowed\nnvidia2 missing\nmade-nvidia2 denied\n"), out)
	assert.Assert(t, strings.Contains(b.must(nil, "/bin/probe"), "nvidia1 missing"))
}
