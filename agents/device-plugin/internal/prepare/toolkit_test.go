package prepare_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/gputest"
)

const toolkitHook = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"

// toolkit returns the folder of facts, with a Preparer that reads it, for the driver root
// on the host.
func (r *rig) toolkit(hostRoot string) contract.Dir {
	r.t.Helper()
	dir := contract.Dir{Root: r.t.TempDir()}
	root, err := driverroot.New(driverroot.Config{
		HostPath: hostRoot, CtrPath: r.dir, ProcRoot: filepath.Join(r.dir, "proc"), SysRoot: filepath.Join(r.dir, "sys"),
		HostDev: filepath.Join(r.dir, "dev"),
	})
	assert.NilError(r.t, err)
	r.preparer = prepare.New(prepare.Config{
		Root: root, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Toolkit: prepare.Toolkit{Contract: dir, Root: root, InstallDir: "/usr/local/nvidia"},
	})
	return dir
}

// ready writes the fact that the toolkit is ready, with the path of its hook.
func ready(t *testing.T, dir contract.Dir, values map[string]string) {
	t.Helper()
	assert.NilError(t, dir.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit", Values: values}))
}

// end makes the fact that of a toolkit which has ended, and has left its tools.
func end(t *testing.T, dir contract.Dir) {
	t.Helper()
	held, err := dir.HoldFile(dir.Path(contract.ToolkitReady), contract.Record{
		Writer: "container-toolkit", Values: map[string]string{contract.KeyCDIHook: toolkitHook},
	})
	assert.NilError(t, err)
	path := dir.Path(contract.ToolkitReady)
	data, err := os.ReadFile(path)
	assert.NilError(t, errors.Join(err, held.Release(), os.WriteFile(path, data, 0o600)))
	if f := dir.Read(contract.ToolkitReady); f.State != contract.WriterDead {
		t.Fatalf("the fact is %s", f.State)
	}
}

// hooks returns the first two arguments of the hooks of the GPUs' spec, and whether it
// mounts libraries by their names.
func (r *rig) hooks() (calls []string, byName bool) {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.specs, "k8s.device-plugin.nvidia.com-gpu.json"))
	assert.NilError(r.t, err)
	var spec specs.Spec
	assert.NilError(r.t, json.Unmarshal(data, &spec))
	for _, h := range spec.ContainerEdits.Hooks {
		calls = append(calls, h.Path+" "+h.Args[1])
	}
	byName = slices.ContainsFunc(spec.ContainerEdits.Mounts, func(m *specs.Mount) bool {
		return m.ContainerPath == "/usr/lib64/libcuda.so."+driver
	})
	return calls, byName
}

// The specs name the hook of the container toolkit for as long as it is on the node.
func TestSpecsNameTheHookOfTheToolkit(t *testing.T) {
	r := newRig(t)
	dir := r.toolkit("/run/nvidia/driver")
	n := gputest.Node(gputest.A100, 2)
	expect := func(when string, c config.Config, want ...string) {
		t.Helper()
		r.prepare(n, c)
		if calls, byName := r.hooks(); !slices.Equal(calls, want) || byName != (len(want) == 0) {
			t.Errorf("%s the hooks are %q, libraries are mounted by name: %v, want the hooks %q", when, calls, byName, want)
		}
		for _, path := range []string{dir.Path(contract.ToolkitReady), filepath.Dir(dir.Path(contract.ToolkitReady)), dir.Root} {
			if !slices.Contains(r.preparer.Watched(), path) {
				t.Errorf("%s %s is not watched", when, path)
			}
		}
	}
	outdated := func(cause string) {
		t.Helper()
		if !r.preparer.Outdated() {
			t.Errorf("not outdated after %s", cause)
		}
	}
	r.settle()
	expect("without the toolkit", r.config())
	if r.preparer.Outdated() {
		t.Error("outdated although nothing has changed")
	}
	ready(t, dir, nil)
	expect("with NVIDIA's toolkit", r.config())
	ready(t, dir, map[string]string{contract.KeyCDIHook: "/usr/local/nvidia/toolkit/../../../../tmp/x"})
	outdated("another program was named")
	expect("with a program of another folder", r.config())
	if !strings.Contains(r.log.String(), "set --toolkit-install-dir") {
		t.Errorf("the log does not name the flag for another folder:\n%s", r.log.String())
	}
	ready(t, dir, map[string]string{contract.KeyCDIHook: toolkitHook})
	outdated("the toolkit was installed")
	expect("with the toolkit", r.config(), toolkitHook+" prepare-container")
	other := r.config(func(c *config.Config) {
		c.HookPath, c.CDIDisableHooks = "/usr/bin/nvidia-cdi-hook", []string{"enable-cuda-compat", "create-symlinks", "update-application-profile"}
	})
	expect("with another hook in the config", other, "/usr/bin/nvidia-cdi-hook update-ldcache", "/usr/bin/nvidia-cdi-hook disable-device-node-modification")
	expect("without hooks in the config", r.config(func(c *config.Config) { c.CDIDisableHooks = []string{"all"} }))
	expect("with the toolkit again", r.config(), toolkitHook+" prepare-container")
	end(t, dir)
	if r.preparer.Outdated() {
		t.Error("outdated while the pod of the toolkit is replaced")
	}
	expect("while the pod of the toolkit is replaced", r.config(), toolkitHook+" prepare-container")
	assert.NilError(t, dir.Remove(contract.ToolkitReady))
	outdated("the toolkit was removed")
	expect("after the toolkit was removed", r.config())
}

// A fact that outlives the files of the toolkit keeps no container from starting.
func TestHookThatTheToolkitDoesNotHave(t *testing.T) {
	r := newRig(t)
	dir := r.toolkit("/")
	ready(t, dir, map[string]string{contract.KeyCDIHook: toolkitHook})
	r.prepare(gputest.Node(gputest.A100, 2), r.config())
	if calls, byName := r.hooks(); len(calls) > 0 || !byName {
		t.Errorf("the hooks are %q, libraries are mounted by name: %v, want mounts alone", calls, byName)
	}
	r.file(toolkitHook, nil)
	if !r.preparer.Outdated() {
		t.Error("not outdated after the hook appeared")
	}
	r.prepare(gputest.Node(gputest.A100, 2), r.config())
	if calls, _ := r.hooks(); len(calls) != 1 {
		t.Errorf("the hooks are %q, want one", calls)
	}
	if err := os.Chmod(filepath.Join(r.dir, filepath.Dir(toolkitHook)), 0o777); err != nil { //nolint:gosec // as an attacker wants it
		t.Fatal(err)
	}
	if !r.preparer.Outdated() {
		t.Error("not outdated after every user may replace the hook")
	}
	r.prepare(gputest.Node(gputest.A100, 2), r.config())
	if calls, _ := r.hooks(); len(calls) > 0 || !strings.Contains(r.log.String(), "chmod o-w") {
		t.Errorf("the hooks are %q, want none and a fix in the log:\n%s", calls, r.log.String())
	}
}
