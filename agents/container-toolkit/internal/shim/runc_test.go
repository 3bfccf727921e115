package shim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runc returns the path of runc.
func runc(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../../bin/cluster-components/runc")
	if err == nil {
		if _, err = os.Stat(path); err != nil {
			path, err = exec.LookPath("runc")
		}
	}
	if err != nil {
		t.Skip("this machine has no runc")
	}
	if os.Getuid() != 0 {
		t.Skip("this machine has no root user for the test")
	}
	return path
}

// probe prints what a container has of GPUs.
const probe = `package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "NVIDIA_") {
			fmt.Println(v)
		}
	}
	nodes, _ := os.ReadDir("/dev")
	for _, n := range nodes {
		if strings.HasPrefix(n.Name(), "nvidia") {
			_, err := os.ReadFile("/dev/" + n.Name())
			fmt.Println(n.Name(), err)
		}
	}
	data, err := os.ReadFile("/usr/lib64/libcuda.so.580.95.05")
	fmt.Println(string(data), err)
	fmt.Println(os.WriteFile("/usr/lib64/libcuda.so.580.95.05", nil, 0o600) != nil)
}
`

// A real container has the GPU that it asks for, the library that it needs, and no other
// GPU. /dev/null stands for the GPUs.
func TestAContainerOfRunc(t *testing.T) {
	low := runc(t)
	n := newNode(t)
	program := built(t, n)
	n.write("stub/main.go", probe, 0o600)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", n.path("bundle/rootfs/bin/probe"), ".")
	build.Dir, build.Env = n.path("stub"), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dir := range []string{"proc", "dev"} {
		if err := os.MkdirAll(n.path("bundle/rootfs/"+dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.write("driver/libcuda", "the library", 0o644)
	var gpus []string
	for _, name := range []string{"0", "1"} {
		gpus = append(gpus, fmt.Sprintf(`{"name":%q,"containerEdits":{"deviceNodes":[{"path":"/dev/nvidia%s","hostPath":"/dev/null","permissions":"rw"}]}}`, name, name))
	}
	n.write("cdi/gpu.json", fmt.Sprintf(`{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void"],`+
		`"mounts":[{"hostPath":%q,"containerPath":"/usr/lib64/libcuda.so.580.95.05","options":["ro","rbind"]}]},"devices":[%s]}`,
		n.path("driver/libcuda"), strings.Join(gpus, ",")), 0o644)
	n.write("config.toml", fmt.Sprintf("[nvidia-container-runtime]\nruntimes = [%q]\nmodes.cdi.spec-dirs = [%q]\n", low, n.path("cdi")), 0o644)

	run := func(env ...string) string {
		n.write("bundle/config.json", containerOf(t, low, env), 0o600)
		cmd := exec.CommandContext(t.Context(), program, "--root", n.path("state"), "run", "--bundle", n.path("bundle"), fmt.Sprintf("shim-%d", os.Getpid()))
		cmd.Env = append(os.Environ(), "NVIDIA_CTK_CONFIG_FILE_PATH="+n.path("config.toml"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("run %q: %v: %s", env, err, out)
		}
		return string(out)
	}
	if got, want := run("NVIDIA_VISIBLE_DEVICES=1"), "NVIDIA_VISIBLE_DEVICES=void\nnvidia1 <nil>\nthe library <nil>\ntrue\n"; got != want {
		t.Errorf("a container with GPU 1 has %q, want %q", got, want)
	}
	if got := run("NVIDIA_VISIBLE_DEVICES=void"); strings.Contains(got, "nvidia1") || strings.Contains(got, "the library") {
		t.Errorf("a container without GPU has %q", got)
	}
}

// containerOf returns the config.json of runc for the probe.
func containerOf(t *testing.T, low string, env []string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), low, "spec", "--bundle", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		t.Fatalf("runc spec writes %s", data)
	}
	process["terminal"], process["args"], process["env"] = false, []string{"/bin/probe"}, env
	if data, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
