//go:build e2e

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"outrigger.dev/charts"
	"outrigger.dev/test/e2e/stack"
)

// earlierRegistry names the images of the release that is upgraded.
const earlierRegistry = "outrigger.dev/earlier"

// TestUpgradeDisturbsNoGPUPod installs the charts, and the orchestrator that applies them, of the
// commit before their last change, and upgrades them to those of now while a pod uses a GPU. The
// agents' programs are those of now, but all their pods are replaced, as in each upgrade.
func TestUpgradeDisturbsNoGPUPod(t *testing.T) {
	tree := earlierTree(t)
	umbrella, err := loader.LoadDir(filepath.Join(tree, "charts", stack.Umbrella))
	if err != nil {
		t.Fatal(err)
	}
	nameEarlierImages(t, umbrella, filepath.Join(tree, "bin", "orchestrator"))
	for _, agent := range []string{"device-plugin", featureDiscovery, "container-toolkit"} {
		if err := shared.Uninstall(t.Context(), agent); err != nil {
			t.Fatal(err)
		}
	}
	traces := nodeTraces(t)
	// Helm keeps CRDs. That of now may be newer than the charts that come first.
	kubectl(t, "delete", "crd", "clusterpolicies.outrigger.dev", "--ignore-not-found", "--wait")
	helm := helmUntilTheEnd(t)
	values := map[string]any{"global": map[string]any{"registry": earlierRegistry}}
	if err := helm.InstallChart(t.Context(), stack.Umbrella, umbrella, values); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			describeOrchestrator(t)
		}
	}()
	allocatable(t, gpus, limit)
	used := hold(t, stack.GPU, 1)[0]
	before, agents := running(t, "holder-nvidia-com-gpu-1-0"), agentImages(t)
	if !strings.Contains(agents, earlierRegistry) {
		t.Errorf("before the upgrade the agents have the images\n%s", agents)
	}

	now, err := charts.Load(stack.Umbrella)
	if err != nil {
		t.Fatal(err)
	}
	if err := helm.InstallChart(t.Context(), stack.Umbrella, now, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all agents are replaced", func() bool { return !strings.Contains(agentImages(t), earlierRegistry) })
	policyIsReady(t)
	if after := running(t, "holder-nvidia-com-gpu-1-0"); after != before {
		t.Errorf("the pod was\n%s\nand is\n%s", before, after)
	}
	// The kubelet gives all GPUs but that one to another pod.
	if others := hold(t, stack.GPU+"@7", 1)[0]; len(others) != gpus-1 || slices.Contains(others, used[0]) {
		t.Errorf("beside a pod with %v another one gets %v", used, others)
	}
	if err := helm.Uninstall(stack.Umbrella); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no object is left", func() bool { return clusterObjects(t) == "" })
	if now := nodeTraces(t); now != traces {
		t.Errorf("the nodes were\n%s\nand are\n%s", traces, now)
	}
}

// earlierTree returns a copy of the repository before the last change of the charts, with its
// orchestrator built.
func earlierTree(t *testing.T) string {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "safe.directory=*"}, args...)...)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	paths := []string{"--", "charts/library", "charts/*/Chart.yaml", "charts/*/values.yaml", "charts/*/values.schema.json", "charts/*/templates/*", "charts/*/crds/*"}
	earlier := "HEAD"
	if _, err := git(append([]string{"diff", "--quiet", "HEAD"}, paths...)...); err == nil {
		last, _ := git(append([]string{"log", "-1", "--format=%H", "HEAD"}, paths...)...)
		earlier = last + "~"
	}
	commit, err := git("rev-parse", "--verify", "--quiet", earlier+"^{commit}")
	if err != nil {
		t.Skip("this machine's clone has no history")
	}
	t.Logf("the earlier charts are those of commit %s", commit)
	tree := t.TempDir()
	archive := filepath.Join(tree, "tree.tar")
	if _, err := git("archive", "--format=tar", "--output="+archive, commit); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", tree).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	build := exec.CommandContext(t.Context(), "tools/build.sh", "orchestrator")
	build.Dir = tree
	build.Env = append(os.Environ(), "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "GOPROXY=off") {
			t.Skipf("this machine lacks Go modules of commit %s: %s", commit, out)
		}
		t.Fatalf("build the orchestrator of commit %s: %v: %s", commit, err, out)
	}
	return tree
}

// nameEarlierImages gives the nodes the images that the defaults of an umbrella chart name, below
// earlierRegistry: those of now under other names, and one with an orchestrator.
func nameEarlierImages(t *testing.T, umbrella *chart.Chart, orchestrator string) {
	t.Helper()
	for _, c := range umbrella.Dependencies() {
		if c.Metadata.Type == "library" {
			continue
		}
		tag := c.Metadata.AppVersion + "-" + c.Metadata.Annotations["outrigger.dev/os-base"]
		name := c.Name()
		switch name {
		case "orchestrator":
			if err := shared.LoadProgram(t.Context(), earlierRegistry+"/"+name+":"+tag, orchestrator); err != nil {
				t.Fatal(err)
			}
			continue
		case "validator":
			name = "vectoradd"
		}
		image, err := shared.Image(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range shared.Nodes() {
			if _, err := shared.Exec(t.Context(), node, "ctr", "--namespace", "k8s.io", "images", "tag", "--force", image, earlierRegistry+"/"+name+":"+tag); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// running describes a running pod: its container, how often and when that was started, what it
// runs, and its GPUs.
func running(t *testing.T, pod string) string {
	t.Helper()
	const status = `jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.running.startedAt}`
	out := kubectl(t, "get", "pod", pod, "-o", status)
	return out + "\n" + kubectl(t, "exec", pod, "--", "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline; cut -d ' ' -f 22 /proc/1/stat; ls -d /dev/nvidia[0-9]*")
}

// agentImages are the images of all pods of agents, the validations left out, which are not
// repeated by every change.
func agentImages(t *testing.T) string {
	t.Helper()
	return kubectl(t, "-n", stack.Namespace, "get", "pods", "--selector=controller-revision-hash",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.containers[*].image}{"\n"}{end}`)
}
