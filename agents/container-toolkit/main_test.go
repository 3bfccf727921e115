package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/hostfs"
)

func TestStart(t *testing.T) {
	h := newHost(t, "--gpus", "2")
	p := h.start()
	p.ready()
	h.describes("0", "1")
	for name, want := range map[string]string{
		"nvidia-ctk": "nvidia-ctk 1", "nvidia-container-runtime.cdi": "nvidia-container-runtime 1",
		".config/nvidia-container-runtime/config.toml": "path = \"" + h.path("nvidia/toolkit/nvidia-container-cli") + "\"",
	} {
		if got := h.installed(name); !strings.Contains(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, want := range []string{"# do not change", h.path("nvidia/toolkit/nvidia-container-runtime.cdi")} {
		if got := h.text(engineConfig); !strings.Contains(got, want) {
			t.Errorf("the config of the engine is %q, want %q in it", got, want)
		}
	}
	if hooks := h.spec().ContainerEdits.Hooks; len(hooks) != 1 || hooks[0].Path != h.path("nvidia/toolkit/nvidia-cdi-hook") || hooks[0].Args[1] != "prepare-container" {
		t.Errorf("the spec has the hooks %+v, want one, of the installed tool", hooks)
	}
	if f := h.fact(); f.Stamp.Writer != "container-toolkit" || f.Stamp.DriverVersion != "580.95.05" ||
		f.Values[contract.KeyCDIHook] != h.path("nvidia/toolkit/nvidia-cdi-hook") {
		t.Errorf("toolkit-ready is %+v", f)
	}
	metrics := p.Get("/metrics")
	for _, line := range []string{`outrigger_container_toolkit_part_ready{part="cdi"} 1`, `outrigger_container_toolkit_part_ready{part="tools"} 1`, "outrigger_container_toolkit_gpus 2"} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	p.Stop()
	// The tools that it names stay, as all that containers need.
	if f := h.fact(); f.State != contract.WriterDead {
		t.Errorf("after the end, toolkit-ready is %s", f.State)
	}
	h.describes("0", "1")
}

func TestMIGChange(t *testing.T) {
	h := newHost(t, "--gpus", "2")
	p := h.start()
	p.ready()
	// The agent holds no GPU open, which would keep the mode from changing.
	h.node.Run("mig mode", "0", "on")
	h.node.Run("reset", "0")
	h.node.Run("mig create", "0", "3g.20gb", "3g.20gb")
	h.describes("0", "0:0", "0:1", "1")
	h.node.Run("mig destroy", "0", "all")
	h.node.Run("mig create", "0", "7g.40gb")
	// The agent does not know whether a container has a destroyed device, so its name stays taken.
	h.describes("0", "0:2", "1")
	p.ready()
}

func TestHotplug(t *testing.T) {
	h := newHost(t, "--gpus", "2")
	p := h.start()
	p.ready()
	h.node.Run("unplug", "1")
	h.describes("0")
	h.node.Run("plug")
	h.describes("0", "2") // another GPU has another name
	p.ready()
}

func TestDriverThatComesAndGoes(t *testing.T) {
	h := newHost(t, "--gpus", "1", "--driver", "off")
	p := h.start()
	p.unready("cdi: ", "driver")
	if got := h.installed("nvidia-ctk"); got != "nvidia-ctk 1" {
		t.Errorf("without a driver, nvidia-ctk is %q", got)
	}
	h.node.Run("set", "driver=on")
	p.ready()
	h.describes("0")
	h.node.Run("set", "driver=off")
	p.unready("cdi: ", "driver")
	h.node.Run("set", "driver=on")
	p.ready()
	p.Stop()
	h.node.Run("set", "driver=off")
	h.start().unready("cdi: ", "driver") // which withdraws the fact of the process before
}

func TestWhatIsDamagedComesBack(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	p := h.start()
	p.ready()
	spec := h.path("cdi/nvidia.com-gpu.json")
	for name, damage := range map[string]func() error{
		"the spec is removed":                   func() error { return os.Remove(spec) },
		"the spec is truncated":                 func() error { return os.Truncate(spec, 10) },
		"the folder of specs is gone":           func() error { return os.Rename(h.path("cdi"), h.path("cdi.old")) },
		"a tool is removed":                     func() error { return os.Remove(h.path("nvidia/toolkit/nvidia-cdi-hook")) },
		"a tool is changed":                     func() error { return os.WriteFile(h.path("nvidia/toolkit/nvidia-ctk"), []byte("x"), 0o600) },
		"the config of the engine is as before": func() error { return os.WriteFile(h.path(engineConfig), []byte(engineText), 0o600) },
		"the link is removed":                   func() error { return os.Remove(h.path("nvidia/toolkit")) },
		"all tools are removed":                 func() error { return os.Rename(h.path("nvidia/.toolkit"), h.path("old")) },
	} {
		assert.NilError(t, damage())
		agenttest.Poll(t, "all to be as before, after "+name, func() bool {
			data, err := os.ReadFile(spec)
			return err == nil && json.Valid(data) && strings.Contains(h.text(engineConfig), "nvidia-container-runtime") && h.installed("nvidia-cdi-hook") == "nvidia-cdi-hook 1" && h.installed("nvidia-ctk") == "nvidia-ctk 1"
		})
	}
	p.ready()
}

// The runtime executes the program with which the engine runs the other containers.
func TestTheRuntimeFollowsTheEnginesDefault(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	config := func(program string) {
		t.Helper()
		text := engineText + "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"crun\"\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun.options]\nBinaryName = \"" + program + "\"\n"
		// At once, because the agent replaces a file without content.
		assert.NilError(t, hostfs.WriteFile(h.path(engineConfig), []byte(text), 0o600))
	}
	runs := func(list string) {
		t.Helper()
		agenttest.Poll(t, "the runtime to execute "+list, func() bool {
			return strings.Contains(h.installed(".config/nvidia-container-runtime/config.toml"), "\nruntimes = "+list+"\n")
		})
	}
	config("/opt/crun")
	p := h.start("--nvidia-runtime-set-as-default=true")
	p.ready()
	runs(`["/opt/crun", "runc", "crun"]`)
	config("/opt/other")
	runs(`["/opt/other", "runc", "crun"]`)
	p.Stop()
	p = h.start("--nvidia-container-runtime-runtimes=youki")
	p.ready()
	runs(`["youki"]`)
	p.Stop()
}

func TestASecondToolkitWaits(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	first := h.start()
	first.ready()
	second := h.start()
	second.Said("another container toolkit runs on this node")
	first.Kill()
	second.ready()
}

func TestRestart(t *testing.T) {
	h := newHost(t, "--gpus", "2")
	p := h.start()
	p.ready()
	before := h.tree()
	p.Stop()
	p = h.start()
	p.ready()
	p.Kill()
	p = h.start()
	p.ready()
	if d := cmp.Diff(before, h.tree()); d != "" {
		t.Errorf("a restart writes (-before +after):\n%s", d)
	}
	p.Hangup(1)
	p.ready()
	if d := cmp.Diff(before, h.tree()); d != "" {
		t.Errorf("a reload writes (-before +after):\n%s", d)
	}
}

func TestUpgrade(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	p := h.start()
	p.ready()
	p.Stop()
	spec, err := os.Stat(h.path("cdi/nvidia.com-gpu.json"))
	assert.NilError(t, err)
	h.release("2")
	p = h.start()
	p.ready()
	if got := h.installed("nvidia-ctk"); got != "nvidia-ctk 2" {
		t.Errorf("nvidia-ctk is %q", got)
	}
	if again, err := os.Stat(h.path("cdi/nvidia.com-gpu.json")); err != nil || !os.SameFile(spec, again) {
		t.Errorf("the CDI spec was written again, error %v", err)
	}
}

func TestTheEngineIsLeftAlone(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	p := h.start()
	p.ready()
	p.Stop()
	p = h.start("--no-runtime-config")
	p.ready()
	agenttest.Poll(t, "the config of the engine to be as before", func() bool { return h.text(engineConfig) == engineText })
	p.Stop()
	h.start("--no-runtime-config").ready()
	if got := h.text(engineConfig); got != engineText {
		t.Errorf("the engine's config is %q", got)
	}
}

func TestOnce(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	if out, err := h.command("--no-daemon").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h.describes("0")
	if got := h.installed("nvidia-ctk"); got != "nvidia-ctk 1" {
		t.Errorf("nvidia-ctk is %q", got)
	}
}

func TestBadCommandLines(t *testing.T) {
	h := newHost(t)
	for name, c := range map[string]struct{ arg, want string }{
		"a relative folder":         {"--toolkit-install-dir=x", "flag --toolkit-install-dir"},
		"a kind of no management":   {"--cdi-kind=nvidia.com/gpu", "management.VENDOR/CLASS"},
		"nodes that are unknown":    {"--create-device-nodes=all", "control or none"},
		"a mode that there is not":  {"--nvidia-container-runtime-mode=x", "mode"},
		"a feature that is unknown": {"--opt-in-features=x", "features.x"},
	} {
		t.Run(name, func(t *testing.T) { agenttest.Fails(t, h.command(c.arg), 2, c.want) })
	}
}

func TestAFolderThatCannotBeWrittenIsReported(t *testing.T) {
	h := newHost(t, "--gpus", "1")
	assert.NilError(t, errors.Join(os.Remove(h.path("nvidia")), os.WriteFile(h.path("nvidia"), nil, 0o600)))
	p := h.start()
	p.unready("tools: ", filepath.Base(h.path("nvidia")))
}

func TestDeviceNodes(t *testing.T) {
	h := newHost(t, "--gpus", "2")
	for _, name := range []string{"nvidiactl", "nvidia1"} {
		assert.NilError(t, os.Remove(filepath.Join(h.node.Root, "dev", name)))
	}
	p := h.start()
	p.ready()
	h.describes("0", "1")
	link := filepath.Join(h.node.Root, "dev/char/195:1")
	if target, err := os.Readlink(link); err != nil || target != "../nvidia1" {
		t.Errorf("the link to nvidia1 is %q, %v", target, err)
	}
	assert.NilError(t, os.Remove(filepath.Join(h.node.Root, "dev/nvidia0")))
	agenttest.Poll(t, "nvidia0 to be there again", func() bool {
		_, err := os.Stat(filepath.Join(h.node.Root, "dev/nvidia0"))
		return err == nil
	})
	p.ready()
}
