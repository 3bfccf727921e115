package shim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// built builds the program, and a low-level runtime that ends at once, into the node.
func built(tb testing.TB, n *node) string {
	tb.Helper()
	if err := os.Remove(n.path("bin/runc")); err != nil {
		tb.Fatal(err)
	}
	n.write("stub/go.mod", "module stub\n", 0o644)
	n.write("stub/main.go", "package main\n\nfunc main() {}\n", 0o644)
	for _, build := range []*exec.Cmd{
		exec.CommandContext(tb.Context(), "go", "build", "-ldflags=-s -w", "-o", n.path("bin/nvidia-container-runtime"), "outrigger.dev/agents/container-toolkit/tools/nvidia-container-runtime"),
		exec.CommandContext(tb.Context(), "go", "build", "-ldflags=-s -w", "-o", n.path("bin/runc"), "."),
	} {
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if build.Args[len(build.Args)-1] == "." {
			build.Dir = n.path("stub")
		}
		if out, err := build.CombinedOutput(); err != nil {
			tb.Fatalf("%v: %s", err, out)
		}
	}
	return n.path("bin/nvidia-container-runtime")
}

// engineConfig returns a config.json of the size that containerd writes.
func engineConfig(env ...string) string {
	var mounts, syscalls []string
	for i := range 12 {
		mounts = append(mounts, fmt.Sprintf(`{"destination":"/run/m%d","type":"bind","source":"/var/lib/kubelet/pods/%040d","options":["rbind","rprivate","rw"]}`, i, i))
	}
	for i := range 400 {
		syscalls = append(syscalls, fmt.Sprintf(`"syscall_number_%d"`, i))
	}
	variables, err := json.Marshal(append([]string{"PATH=/usr/bin:/bin", "HOSTNAME=pod"}, env...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"ociVersion":"1.2.0","process":{"user":{"uid":0,"gid":0},"args":["sh"],"env":%s,"cwd":"/"},"root":{"path":"rootfs"},"mounts":[%s],`+
		`"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"}]},"seccomp":{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":[%s],"action":"SCMP_ACT_ALLOW"}]}}}`,
		variables, strings.Join(mounts, ","), strings.Join(syscalls, ","))
}

// wholeSpec returns a CDI spec as large as that of eight GPUs and the driver's files.
func wholeSpec() string {
	var mounts, devices []string
	for i := range 60 {
		path := fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libnvidia-part%d.so.580.95.05", i)
		mounts = append(mounts, fmt.Sprintf(`{"hostPath":%q,"containerPath":%q,"options":["ro","nosuid","nodev","rbind","rprivate"]}`, path, path))
	}
	for i := range 8 {
		for _, name := range []string{fmt.Sprint(i), fmt.Sprintf("GPU-%036d", i), fmt.Sprintf("00000000:%02x:00.0", i)} {
			devices = append(devices, fmt.Sprintf(`{"name":%q,"containerEdits":{"deviceNodes":[{"path":"/dev/null","permissions":"rw"}]}}`, name))
		}
	}
	return fmt.Sprintf(`{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void"],"mounts":[%s],`+
		`"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-cdi-hook","args":["nvidia-cdi-hook","update-ldcache"]}]},"devices":[%s]}`,
		strings.Join(mounts, ","), strings.Join(devices, ","))
}

// BenchmarkStart times the program as a process that becomes a stub, which is also timed
// alone.
func BenchmarkStart(b *testing.B) {
	n := newNode(b)
	program := built(b, n)
	n.write("cdi/gpu.json", wholeSpec(), 0o644)
	for _, c := range []struct{ name, program, command, env string }{
		{"the stub alone", n.path("bin/runc"), "state", ""},
		{"another command", program, "state", ""},
		{"create without GPU", program, "create", "A=1"},
		{"create with CDI", program, "create", "NVIDIA_VISIBLE_DEVICES=0"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				n.write("bundle/config.json", engineConfig(c.env), 0o600)
				cmd := exec.CommandContext(b.Context(), c.program, "--root", "/r", c.command, "--bundle", n.path("bundle"), "id")
				cmd.Env = []string{"NVIDIA_CTK_CONFIG_FILE_PATH=" + n.path("config.toml")}
				b.StartTimer()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
			if changed := strings.Contains(n.read("bundle/config.json"), "nvidia-cdi-hook"); changed != (c.name == "create with CDI") {
				b.Errorf("GPUs injected: %v", changed)
			}
		})
	}
}
