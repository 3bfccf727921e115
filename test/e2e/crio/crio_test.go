//go:build e2e

package crio_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestCRIO has the toolkit configure a running CRI-O, gives GPUs to containers through its
// socket, and takes the configuration back.
func TestCRIO(t *testing.T) {
	if os.Getenv(nodeVariable) == "" {
		onNode(t)
		return
	}
	prepare(t)
	e := newEngine(t)
	before := files(t, "/etc/crio")
	e.configure()
	configured := files(t, "/etc/crio")
	gpus := strings.Fields(command(t, "nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"))
	if len(gpus) != 4 {
		t.Fatalf("the node has the GPUs %q, want 4", gpus)
	}
	e.getsGPUs(gpus)
	e.getsNoOther(gpus)
	e.missing()
	if got := files(t, "/etc/crio"); got != configured {
		t.Errorf("the config is\n%s\nand was\n%s", got, configured)
	}
	e.byDefault(gpus)
	e.takenBack(before)
}

// byDefault makes the runtime the default one, for which CRI-O is restarted again.
func (e *engine) byDefault(all []string) {
	e.Helper()
	if out, err := e.agent("--nvidia-runtime-set-as-default=true"); err != nil {
		e.Fatalf("the agent: %v: %s", err, out)
	}
	out, err := e.run("", func(c *cri.ContainerConfig) {
		c.Command = []string{"vectoradd", "--list"}
		byVariable(c, all[0])
	})
	if err != nil || strings.Count(out, "GPU-") != 1 || !strings.Contains(out, all[0]) {
		e.Errorf("without a runtime handler, the container has the GPUs %q, want %s: %v", out, all[0], err)
	}
}

// takenBack has the agent take everything back, and then nvidia-ctk what it configured.
func (e *engine) takenBack(before string) {
	e.Helper()
	same := func(by string) {
		e.Helper()
		if after := files(e.T, "/etc/crio"); after != before {
			e.Errorf("before the configuration the config was\n%s\nand after %s\n%s", before, by, after)
		}
	}
	if out, err := e.agent("--no-runtime-config"); err != nil {
		e.Fatalf("the agent: %v: %s", err, out)
	}
	same("the agent has taken it back")
	if got, want := e.restarted(), strings.Repeat("restart crio.service\n", 3); got != want {
		e.Errorf("systemctl was called with %q, want %q", got, want)
	}
	e.rejects("nvidia")
	ctk := filepath.Join(repository(e.T), "bin/nvidia-ctk")
	command(e.T, ctk, "runtime", "configure", "--runtime=crio")
	if files(e.T, "/etc/crio") == before {
		e.Error("nvidia-ctk runtime configure has changed nothing")
	}
	command(e.T, ctk, "runtime", "unconfigure", "--runtime=crio")
	same("nvidia-ctk runtime unconfigure")
}

// agent installs and configures the toolkit once.
func (e *engine) agent(args ...string) (string, error) {
	e.Helper()
	bin := filepath.Join(repository(e.T), "bin")
	return try(e.T, filepath.Join(bin, "container-toolkit"), append([]string{
		"--no-daemon", "--runtime=crio", "--nvidia-runtime-set-as-default=false", "--host-root-mount=/",
		"--driver-root-ctr-path=/", "--toolkit-source-root=" + bin,
	}, args...)...)
}

// restarted returns what systemctl was called with.
func (e *engine) restarted() string {
	e.Helper()
	data, err := os.ReadFile(restarts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Fatal(err)
	}
	return string(data)
}

// rejects checks that pods cannot use a runtime handler.
func (e *engine) rejects(handler string) {
	e.Helper()
	if _, _, err := e.pod(handler); err == nil || !strings.Contains(err.Error(), "failed to find runtime handler "+handler) {
		e.Fatalf("a pod with the runtime handler %s: %v, want that there is none", handler, err)
	}
}

// configure has the agent configure CRI-O. CRI-O that was told to load its config shows the
// runtime, and cannot use it. It is restarted for that, once; a container keeps running.
func (e *engine) configure() {
	e.Helper()
	running, _, err := e.start("", func(c *cri.ContainerConfig) {
		c.Command = []string{"/sleep", "1000"}
		c.Mounts = []*cri.Mount{{HostPath: "/bin/sleep", ContainerPath: "/sleep", Readonly: true}}
	})
	must(e.T, err)
	const todo = "crio has not loaded its config, and the restart mode is none: run systemctl restart crio.service"
	if out, err := e.agent("--runtime-restart-mode=none"); err == nil || !strings.Contains(out, todo) {
		e.Fatalf("the agent that may not restart CRI-O: %v, want %q: %s", err, todo, out)
	}
	e.reload()
	e.until("CRI-O shows the runtime in its config", func() bool {
		out, err := try(e.T, component(repository(e.T), "crio"), "status", "config")
		return err == nil && strings.Contains(out, "runtimes.nvidia]")
	})
	e.rejects("nvidia")
	if out, err := e.agent("--runtime-restart-mode=none"); err == nil || !strings.Contains(out, todo) {
		e.Errorf("the agent after SIGHUP: %v, want %q: %s", err, todo, out)
	}
	for range 2 {
		if out, err := e.agent(); err != nil {
			e.Fatalf("the agent: %v: %s", err, out)
		}
		if got, want := e.restarted(), "restart crio.service\n"; got != want {
			e.Fatalf("systemctl was called with %q, want %q", got, want)
		}
	}
	answer, err := e.runtime.ContainerStatus(e.Context(), &cri.ContainerStatusRequest{ContainerId: running})
	must(e.T, err)
	if got := answer.GetStatus().GetState(); got != cri.ContainerState_CONTAINER_RUNNING {
		e.Errorf("after the restart, the container is %s", got)
	}
}

// byVariable has the container ask for GPUs as images and pods do.
func byVariable(c *cri.ContainerConfig, gpus ...string) {
	c.Envs = append(c.Envs, &cri.KeyValue{Key: "NVIDIA_VISIBLE_DEVICES", Value: []byte(strings.Join(gpus, ","))})
}

// asks are the ways in which a container asks for GPUs.
var asks = map[string]struct {
	handler string
	ask     func(*cri.ContainerConfig, ...string)
}{
	"by the runtime and NVIDIA_VISIBLE_DEVICES": {"nvidia", byVariable},
	"by the runtime for CDI":                    {"nvidia-cdi", byVariable},
	"by the prestart hook":                      {"nvidia-legacy", byVariable},
	"by the CDI devices of the CRI": {"", func(c *cri.ContainerConfig, gpus ...string) {
		for _, gpu := range gpus {
			c.CDIDevices = append(c.CDIDevices, &cri.CDIDevice{Name: "nvidia.com/gpu=" + gpu})
		}
	}},
	"by CDI annotations": {"", func(c *cri.ContainerConfig, gpus ...string) {
		c.Annotations = map[string]string{"cdi.k8s.io/test": "nvidia.com/gpu=" + strings.Join(gpus, ",nvidia.com/gpu=")}
	}},
}

// getsGPUs checks that a container has the GPUs that it asks for, and can use them.
func (e *engine) getsGPUs(all []string) {
	for name, way := range asks {
		list, err := e.run(way.handler, func(c *cri.ContainerConfig) {
			c.Command = []string{"nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"}
			way.ask(c, all[1], all[3])
		})
		if want := []string{all[1], all[3]}; err != nil || !slices.Equal(strings.Fields(list), want) {
			e.Errorf("%s: the container has the GPUs %q, want %q: %v", name, list, want, err)
		}
		out, err := e.run(way.handler, func(c *cri.ContainerConfig) { way.ask(c, all[2]) })
		if err != nil || !strings.Contains(out, "Test PASSED") {
			e.Errorf("%s: vectoradd: %v: %s", name, err, out)
		}
	}
}

// getsNoOther checks that a container cannot open the device node of another GPU. No driver
// serves the nodes of a simulated node: the kernel answers ENXIO where it allows to open
// one, and EPERM where it does not.
func (e *engine) getsNoOther(all []string) {
	for name, way := range asks {
		for node, want := range map[string]string{"/dev/nvidia1": "No such device or address", "/foreign": "Operation not permitted"} {
			out, err := e.run(way.handler, func(c *cri.ContainerConfig) {
				c.Command = []string{"/dd", "if=" + node, "count=1"}
				c.Mounts = []*cri.Mount{
					{HostPath: "/bin/dd", ContainerPath: "/dd", Readonly: true},
					{HostPath: "/dev/nvidia2", ContainerPath: "/foreign"},
				}
				way.ask(c, all[1])
			})
			if err == nil || !strings.Contains(out, want) {
				e.Errorf("%s: open %s: %s, want %q (%v)", name, node, out, want, err)
			}
		}
	}
	if out, err := e.run("nvidia", func(c *cri.ContainerConfig) { c.Command = []string{"nvidia-smi", "-L"} }); err == nil {
		e.Errorf("a container that asks for no GPU has nvidia-smi: %s", out)
	}
}

// missing checks what the CRI answers if there is no such GPU.
func (e *engine) missing() {
	const unresolvable = "unresolvable CDI devices nvidia.com/gpu=GPU-none"
	for name, want := range map[string]string{
		"by the runtime and NVIDIA_VISIBLE_DEVICES": "nvidia-container-runtime: inject GPUs: " + unresolvable + ": /var/run/cdi/nvidia.com-gpu.json has 0, ",
		"by the runtime for CDI":                    "nvidia-container-runtime: inject GPUs: " + unresolvable + ": /var/run/cdi/nvidia.com-gpu.json has 0, ",
		"by the prestart hook":                      `nvidia-container-cli: configure: find device \"GPU-none\": none of the 4 GPUs of the node has this name`,
		"by the CDI devices of the CRI":             unresolvable,
		"by CDI annotations":                        unresolvable,
	} {
		way := asks[name]
		_, err := e.run(way.handler, func(c *cri.ContainerConfig) { way.ask(c, "GPU-none") })
		if err == nil || !strings.Contains(err.Error(), want) {
			e.Errorf("%s: a GPU that is missing: %v, want %q", name, err, want)
		}
	}
}
