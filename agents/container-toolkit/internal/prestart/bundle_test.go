package prestart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu/simtest"
)

// gpus is the number of GPUs of the simulated node.
const gpus = 4

// bundle is an OCI bundle on a simulated node, with the hook.
type bundle struct {
	t    *testing.T
	node *simtest.Node
	runc string
	dir  string
	spec *specs.Spec
}

func newBundle(t *testing.T, args ...string) *bundle {
	t.Helper()
	node := simtest.New(t, append([]string{fmt.Sprintf("--gpus=%d", gpus), "--model=h100-80"}, args...)...)
	runc := filepath.Join(node.Bin, "cluster-components/runc")
	if _, err := os.Stat(runc); err != nil {
		if runc, err = exec.LookPath("runc"); err != nil {
			t.Skip("this machine has no runc")
		}
	}
	b := &bundle{t: t, node: node, runc: runc, dir: t.TempDir()}
	self, err := os.Executable()
	assert.NilError(t, err)
	for _, name := range []string{"nvidia-container-runtime-hook", "nvidia-container-cli", "nvidia-container-runtime.legacy", "hardware"} {
		assert.NilError(t, os.Symlink(self, filepath.Join(b.dir, name)))
	}
	b.write("config.toml", fmt.Sprintf("[nvidia-container-cli]\npath = %q\n", filepath.Join(b.dir, "nvidia-container-cli")))
	b.rootfs(self)
	b.spec = b.defaults()
	return b
}

func (b *bundle) write(name, text string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	assert.NilError(b.t, os.MkdirAll(filepath.Dir(p), 0o755))
	assert.NilError(b.t, os.WriteFile(p, []byte(text), 0o644))
}

// rootfs makes an image of Debian's family with what vectoradd and nvidia-smi load.
func (b *bundle) rootfs(self string) {
	b.t.Helper()
	for from, to := range map[string]string{
		filepath.Join(b.node.Bin, "vectoradd"): "bin/vectoradd",
		"/lib/x86_64-linux-gnu/libc.so.6":      "lib/x86_64-linux-gnu/libc.so.6",
		"/lib64/ld-linux-x86-64.so.2":          "lib64/ld-linux-x86-64.so.2",
		self:                                   "bin/probe",
	} {
		data, err := os.ReadFile(from)
		assert.NilError(b.t, err)
		p := filepath.Join(b.dir, "rootfs", to)
		assert.NilError(b.t, os.MkdirAll(filepath.Dir(p), 0o755))
		assert.NilError(b.t, os.WriteFile(p, data, 0o755))
	}
	b.write("rootfs/etc/debian_version", "12.0\n")
}

func (b *bundle) defaults() *specs.Spec {
	caps := []string{"CAP_MKNOD", "CAP_DAC_OVERRIDE"}
	name := strings.NewReplacer("/", "-", " ", "-").Replace(filepath.Base(b.dir) + b.t.Name())
	return &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Cwd: "/", Args: []string{"/bin/probe"},
			Env:          []string{"PATH=/usr/bin:/bin"},
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
		},
		Hooks: &specs.Hooks{Prestart: []specs.Hook{{ //nolint:staticcheck // what Docker uses
			Path: filepath.Join(b.dir, "hardware"), Args: []string{"hardware"},
		}, {
			Path: filepath.Join(b.dir, "nvidia-container-runtime-hook"),
			Args: []string{"nvidia-container-toolkit", "-config", filepath.Join(b.dir, "config.toml"), "prestart"},
		}}},
		Linux: &specs.Linux{
			CgroupsPath: "/legacy-" + name,
			Namespaces:  []specs.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}},
			Resources:   &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
}

// run runs a command in the container with variables.
func (b *bundle) run(env []string, args ...string) (string, error) {
	b.t.Helper()
	spec := *b.spec
	process := *spec.Process
	process.Args, process.Env = args, append(env, process.Env...)
	spec.Process = &process
	data, err := json.Marshal(&spec)
	assert.NilError(b.t, err)
	b.write("config.json", string(data))
	id := strings.TrimPrefix(spec.Linux.CgroupsPath, "/")
	runc := []string{"--root", filepath.Join(b.dir, "state")}
	b.t.Cleanup(func() {
		_ = b.node.Command(context.WithoutCancel(b.t.Context()), b.runc, append(runc, "delete", "--force", id)...).Run()
	})
	// What is written to /etc of the node, and what is mounted on it, is there for this
	// command only. The node's /var/run is that of the machine, which may have specs.
	const withSpecs = `mkdir -p /etc/cdi && cp -r "$1"/cdi/. /etc/cdi && shift
if [ -d /var/run/cdi ]; then mount -t tmpfs tmpfs /var/run/cdi; fi
exec "$@"`
	assert.NilError(b.t, os.MkdirAll(filepath.Join(b.dir, "cdi"), 0o755))
	cmd := b.node.Command(b.t.Context(), "sh", append([]string{"-ec", withSpecs, "sh", b.dir, b.runc}, append(runc, "run", "--bundle", b.dir, id)...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// must is run for a container that has to succeed.
func (b *bundle) must(env []string, args ...string) string {
	b.t.Helper()
	out, err := b.run(env, args...)
	assert.NilError(b.t, err, out)
	return out
}

// uuid returns the UUID of a GPU.
func (b *bundle) uuid(index int) string {
	b.t.Helper()
	cmd := b.node.Command(b.t.Context(), "nvidia-smi", "-L")
	out, err := cmd.Output()
	assert.NilError(b.t, err)
	m := regexp.MustCompile(`\(UUID: (GPU-[^)]*)\)`).FindAllStringSubmatch(string(out), -1)
	return m[index][1]
}

// onNode returns the output of a command on the node.
func (b *bundle) onNode(name string, args ...string) []byte {
	b.t.Helper()
	out, err := b.node.Command(b.t.Context(), name, args...).Output()
	assert.NilError(b.t, err)
	return out
}

// copyProgram puts a program of the host, which loads the C library only, into the image.
func (b *bundle) copyProgram(path string) {
	b.t.Helper()
	data, err := os.ReadFile(path)
	assert.NilError(b.t, err)
	assert.NilError(b.t, os.WriteFile(filepath.Join(b.dir, "rootfs", path), data, 0o755))
}

// spec1 writes a CDI spec with one device, as the node has it from now on.
func (b *bundle) spec1(name, device string, nodes ...string) {
	b.t.Helper()
	d := map[string]any{"name": device}
	var list []map[string]string
	for _, n := range nodes {
		list = append(list, map[string]string{"path": n})
	}
	d["containerEdits"] = map[string]any{"deviceNodes": list}
	data, err := json.Marshal(map[string]any{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": []any{d}})
	assert.NilError(b.t, err)
	b.write("cdi/"+name, string(data))
}
