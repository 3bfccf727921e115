//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

const (
	pluginFact = "/run/nvidia/validations/plugin-ready"
	pluginSpec = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
)

// onNode runs a command on the GPU node and returns its output. It fails the test if the
// command fails.
func onNode(t *testing.T, args ...string) string {
	t.Helper()
	out, err := shared.Exec(t.Context(), gpuNode(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatThePluginPublishesHeals removes and truncates the files of the plugin on the
// node, as other programs and people do.
func TestWhatThePluginPublishesHeals(t *testing.T) {
	api := discovery(t, "readyChain={driver,plugin}")
	plugin(t)
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin", readyIs("True", ""))
	filled := func(path string) bool {
		_, err := shared.Exec(t.Context(), gpuNode(), "test", "-s", path)
		return err == nil
	}
	for _, path := range []string{pluginFact, pluginSpec} {
		for _, damage := range [][]string{{"rm", path}, {"busybox", "truncate", "-s", "0", path}} {
			onNode(t, damage...)
			eventually(t, path+" is there again", func() bool { return filled(path) })
		}
	}
	// In one step: the plugin writes into a folder that is being removed.
	onNode(t, "mv", "/run/nvidia/leases", "/run/removed-leases")
	onNode(t, "rm", "-r", "/run/removed-leases")
	eventually(t, "the plugin claims all its GPUs again", func() bool {
		out, err := shared.Exec(t.Context(), gpuNode(), "ls", "/run/nvidia/leases")
		return err == nil && strings.Count(out, "offer.") == gpus
	})
	nodeIs(t, api, gpuNode(), "the node is ready again", readyIs("True", ""))
	if _, err := shared.RunVectorAdd(t.Context(), "after-heal", limit); err != nil {
		t.Error(err)
	}
}

// TestLocksOfOthersDelayNothing starts the plugin while another process, which only reads,
// has locked the files through which agents communicate.
func TestLocksOfOthersDelayNothing(t *testing.T) {
	api := discovery(t, "readyChain={driver,plugin}")
	plugin(t)
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin", readyIs("True", ""))
	seen := observe(t, api, gpuNode(), readyIs("False", "Plugin"))
	for _, path := range []string{"/run/nvidia/validations", pluginFact, "/run/nvidia/leases", "/run/nvidia/leases/nvml"} {
		// The lock ends with the input of cat: a signal would not reach what runs in the node.
		cmd, err := shared.NodeCommand(t.Context(), gpuNode(), "flock", path, "cat")
		if err != nil {
			t.Fatal(err)
		}
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = input.Close(); _ = cmd.Wait() })
	}
	// What an agent holds is locked when that agent dies.
	eventually(t, "the facts are locked", func() bool {
		_, err := shared.Exec(t.Context(), gpuNode(), "flock", "-n", "-s", "-E", "75", "/run/nvidia/validations", "true")
		return err != nil && strings.Contains(err.Error(), "exit status 75")
	})
	onNode(t, "busybox", "killall", "-KILL", "device-plugin")
	if s := seen(); s.err != nil {
		t.Fatalf("the dead plugin seems alive: %v", s.err)
	}
	nodeIs(t, api, gpuNode(), "the node is ready with the plugin that was started again", readyIs("True", ""))
	if _, err := shared.RunPod(t.Context(), stack.Pod{Name: "after-locks", Count: gpus}, limit); err != nil {
		t.Error(err)
	}
}

// TestNobodyChoosesTheHook plants facts of a toolkit that name a program, as a pod may that can write
// into the folder of the facts: the container engine would run that program as root.
func TestNobodyChoosesTheHook(t *testing.T) {
	plugin(t)
	allocatable(t, gpus, limit)
	const fact, program = "/run/nvidia/validations/toolkit-ready", "/tmp/x"
	t.Cleanup(func() {
		if _, err := shared.Exec(context.WithoutCancel(t.Context()), gpuNode(), "rm", "-f", fact); err != nil {
			t.Error(err)
		}
	})
	written := func() string { return onNode(t, "stat", "-c", "%i %y", pluginSpec) }
	before := written()
	for _, plant := range []string{
		"echo NVIDIA_CDI_HOOK_PATH=" + program + " > F; chown 65534:65534 F; chmod 777 F",
		"echo NVIDIA_CDI_HOOK_PATH=" + program + " > F",
		"printf 'NVIDIA_CDI_HOOK_PATH=%s\nOUTRIGGER_WRITER=container-toolkit\nOUTRIGGER_BOOT_ID=%s\n' " + program + " $(cat /proc/sys/kernel/random/boot_id) > F",
	} {
		onNode(t, "sh", "-c", "rm -f "+fact+"; "+strings.ReplaceAll(plant, "F", fact))
		if _, err := shared.RunVectorAdd(t.Context(), "planted", limit); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the plugin says why it does not use the program", func() bool {
		log := kubectl(t, "-n", stack.Namespace, "logs", pluginPod(t))
		return strings.Contains(log, "toolkit-ready: user 65534 can change it") && strings.Contains(log, "names the hook "+program)
	})
	if after := written(); after != before {
		t.Errorf("the plugin's CDI spec was %s, and is %s", before, after)
	}
}
