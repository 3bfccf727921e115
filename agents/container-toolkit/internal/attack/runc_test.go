package attack_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

// runc runs the hook as engines do, and, as a spec without "env" makes it, with the
// environment of the container. The container starts, and nothing outside changes.
func TestRuncRunsTheHook(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("this machine has no runc")
	}
	v := newVictim(t)
	hook := v.tool("nvidia-cdi-hook").Path
	program, err := os.ReadFile(hook)
	v.must(err)
	v.image("program", string(program))
	v.must(os.Chmod(v.rootfs("program"), 0o755))
	v.must(os.RemoveAll(v.rootfs("proc")))
	for _, dir := range []string{"proc", "sys", "opt/driver/lib"} {
		v.must(os.MkdirAll(v.rootfs(dir), 0o755))
	}
	v.must(os.RemoveAll(v.rootfs("dev")))
	v.must(os.Mkdir(v.rootfs("dev"), 0o755))
	v.link(filepath.Join(v.dir, "canary/file"), "etc/ld.so.cache")
	v.config(runc, hook)
	v.arm()
	before := mounts(t)
	cmd := exec.CommandContext(t.Context(), runc, "--root", filepath.Join(t.TempDir(), "state"), "run", "--bundle", filepath.Join(v.dir, "bundle"), "attack-victim")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "cgroup") {
		t.Skipf("this machine has no cgroups for runc: %s", out)
	}
	if err != nil || !strings.HasPrefix(string(out), "nvidia-cdi-hook ") {
		t.Errorf("runc run: %v: %s", err, out)
	}
	v.check()
	if after := mounts(t); after != before {
		t.Errorf("mounts on the host:\n%s\nbefore:\n%s", after, before)
	}
	if target, err := os.Readlink(v.rootfs(libDir + "/libcuda.so")); err != nil || target != "libcuda.so.1" {
		t.Errorf("the link in the container: %q, %v", target, err)
	}
	if info, err := os.Lstat(v.rootfs("etc/ld.so.cache")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the cache in the container: %v, %v", info, err)
	}
}

// config makes a config.json that has the hook, and a program of the image.
func (v *victim) config(runc, hook string) {
	v.Helper()
	bundle := filepath.Join(v.dir, "bundle")
	v.must(os.Remove(filepath.Join(bundle, "config.json")))
	if out, err := exec.CommandContext(v.Context(), runc, "spec", "--bundle", bundle).CombinedOutput(); err != nil {
		v.Fatalf("runc spec: %v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	v.must(err)
	var spec map[string]any
	v.must(json.Unmarshal(data, &spec))
	process := spec["process"].(map[string]any)
	process["terminal"] = false
	process["args"] = []string{"/program", "--version"}
	process["env"] = []string{"LD_PRELOAD=/proc/self/cwd/poc.so", "GOTRACEBACK=crash"}
	spec["hooks"] = map[string]any{"createContainer": []any{map[string]any{
		"path": hook, "args": append([]string{"nvidia-cdi-hook"}, prepare(v)...),
	}}}
	data, err = json.Marshal(spec)
	v.must(err)
	v.must(os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644))
}
