//go:build e2e

package crio_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// bystander is a pod that has nothing to do with GPUs.
const bystander = `
apiVersion: v1
kind: Pod
metadata: {name: bystander}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "` + cluster.BusyboxImage + `", command: [sleep, "3600"]}]
`

// TestCRIO has the toolkit configure CRI-O, starts pods with GPUs in all ways that the
// kubelet and CRI-O know, and has the configuration taken back.
func TestCRIO(t *testing.T) {
	n := newNode(t)
	n.apply(bystander)
	n.Must(n.InstallFeatureDiscovery(t.Context()))
	n.plugin("cdi-cri")
	n.MustKubectl("wait", "pod/bystander", "--for=condition=Ready", "--timeout=60s")
	n.Must(n.WaitGPUReady(t.Context(), n.name, limit))
	if got := n.MustKubectl("get", "nodes", "-l", "nvidia.com/gpu.count=4", "-o", "name"); got != "node/"+n.name {
		t.Errorf("feature discovery has labelled %q", got)
	}
	clean, untouched := n.files(config), n.containers("device-plugin")
	n.part("CRI-O needs a restart", needsRestart)
	n.part("it is restarted once, and pods keep running", configured)
	n.part("pods get their GPUs by CDI devices", func(n node) {
		n.getGPUs(map[string]string{"by-cdi": "", "by-cdi-and-runtime": "nvidia"})
	})
	n.part("pods get their GPUs by CDI annotations", func(n node) {
		n.plugin("cdi-annotations")
		n.getGPUs(map[string]string{"by-annotation": ""})
	})
	n.part("pods get their GPUs by runtimes", func(n node) {
		n.plugin("envvar")
		n.getGPUs(map[string]string{"by-runtime": "nvidia", "by-cdi-runtime": "nvidia-cdi", "by-legacy-runtime": "nvidia-legacy"})
	})
	n.part("a pod cannot name GPUs in its annotations", annotated)
	n.part("a pod that names a missing GPU says so", namesMissing)
	n.part("a new pod of the agent changes nothing", replaced)
	n.part("the runtime can be the default one", func(n node) {
		n.toolkit("acceptVisibleDevicesEnvvar=true", "runtime.setAsDefault=true")
		n.restarted(2)
		n.getGPUs(map[string]string{"by-default": ""})
	})
	n.part("all is taken back", func(n node) { n.takenBack(clean) })
	n.part("pods get their GPUs by NRI", func(n node) { n.byNRI(clean) })
	if got := n.containers("device-plugin"); got != untouched {
		t.Errorf("the other pods were\n%s\nand are\n%s", untouched, got)
	}
}

// needsRestart checks that CRI-O that was told to load its config shows the runtime, and
// cannot use it.
func needsRestart(n node) {
	release, err := n.Agent("container-toolkit", "runtime.engine=crio", "runtime.restartMode=none")
	n.Must(err)
	release.NoWait = true
	n.Must(n.Install(n.T.Context(), release))
	n.Until("the agent says what to do", func() bool {
		log, err := n.Kubectl(n.T.Context(), "-n", stack.Namespace, "logs", "daemonset/container-toolkit")
		return err == nil && strings.Contains(log, "crio has not loaded its config, because the restart mode is none: run systemctl restart crio.service")
	})
	n.shell("busybox killall -HUP crio")
	n.Until("CRI-O shows the runtime in its config", func() bool {
		return strings.Contains(n.shell("crio status config"), "runtimes.nvidia]")
	})
	n.apply(asks("too-early", "nvidia", "all"))
	n.says("too-early", "failed to find runtime handler nvidia")
	n.restarted(0)
}

// configured lets the agent restart CRI-O.
func configured(n node) {
	others := n.containers("container-toolkit")
	n.toolkit("acceptVisibleDevicesEnvvar=true")
	n.restarted(1)
	if now := n.containers("container-toolkit"); now != others {
		n.T.Errorf("before CRI-O was restarted the pods were\n%s\nand after it\n%s", others, now)
	}
	n.Until("CRI-O listens again", func() bool { return n.shell("[ ! -S /var/run/crio/crio.sock ] || echo yes") == "yes" })
	if got := n.MustKubectl("exec", "bystander", "--", "echo", "alive"); got != "alive" {
		n.T.Errorf("a pod of before answers %q", got)
	}
}

// gpuPod is a pod whose containers have the same GPU. They list it, try to open the device
// nodes of all GPUs of the node, and compute.
const gpuPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  runtimeClassName: %[2]s
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  volumes: [{name: dev, hostPath: {path: /dev}}]
  initContainers:
  - name: list
    image: %[3]s
    args: [--list]
    resources: {limits: {nvidia.com/gpu: 1}}
  - name: open
    image: %[4]s
    command: [sh, -c, 'for n in /host/nvidia[0-9] /dev/nvidia[0-9]; do dd if=$n count=1 2>&1 | sed -n "s/^dd: //p"; done']
    volumeMounts: [{name: dev, mountPath: /host}]
    resources: {limits: {nvidia.com/gpu: 1}}
  containers:
  - name: vectoradd
    image: %[3]s
    resources: {limits: {nvidia.com/gpu: 1}}
`

// getGPUs runs pods with a GPU each, at the same time. The map has their RuntimeClasses.
func (n node) getGPUs(pods map[string]string) {
	n.T.Helper()
	image, err := n.VectorAddImage()
	n.Must(err)
	manifests := map[string]string{}
	for pod, class := range pods {
		manifests[pod] = fmt.Sprintf(gpuPod, pod, cmp.Or(class, "null"), image, cluster.BusyboxImage)
		n.apply(manifests[pod])
	}
	for pod, manifest := range manifests {
		result, err := n.RunManifest(n.T.Context(), pod, manifest, limit)
		n.Must(err)
		if !strings.Contains(result.Log, "Test PASSED") {
			n.T.Errorf("%s: vectoradd: %s", pod, result.Log)
		}
		gpu := -1
		if len(result.GPUs) == 1 {
			gpu = slices.Index(n.uuid, result.GPUs[0])
		}
		if got, want := n.MustKubectl("logs", pod, "-c", "open"), opened(gpu); gpu < 0 || got != want {
			n.T.Errorf("%s has the GPUs %q; it opens device nodes with\n%s\nand should with\n%s", pod, result.GPUs, got, want)
		}
	}
}

// opened returns what a container prints that has one GPU. No driver serves the nodes of a
// simulated node: the kernel answers ENXIO where it allows to open one, and EPERM where it
// does not.
func opened(gpu int) string {
	var lines []string
	for i := range gpus {
		answer := "Operation not permitted"
		if i == gpu {
			answer = "No such device or address"
		}
		lines = append(lines, fmt.Sprintf("can't open '/host/nvidia%d': %s", i, answer))
	}
	return strings.Join(append(lines, fmt.Sprintf("can't open '/dev/nvidia%d': No such device or address", gpu)), "\n")
}

// asks returns a pod that names GPUs by a variable, without an allocation.
func asks(name, class, visible string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  runtimeClassName: %s
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: %s
    command: [sleep, "3600"]
    env: [{name: NVIDIA_VISIBLE_DEVICES, value: %s}]
`, name, class, cluster.BusyboxImage, visible)
}

// annotated checks that the runtime ignores, or rejects, the annotations of a pod, which CRI-O copies
// into the spec of a container.
func annotated(n node) {
	pod := func(name, device string) string {
		annotation := fmt.Sprintf("metadata: {name: %s, annotations: {cdi.k8s.io/x: nvidia.com/gpu=%s}}", name, device)
		return strings.Replace(asks(name, "nvidia", "void"), fmt.Sprintf("metadata: {name: %s}", name), annotation, 1)
	}
	n.toolkit()
	n.apply(pod("names-all", "all"))
	n.apply(pod("names-one", "0"))
	n.MustKubectl("wait", "pod/names-all", "--for=condition=Ready", "--timeout=4m")
	if got := n.MustKubectl("exec", "names-all", "--", "sh", "-c", "ls /dev | grep nvidia; true"); got != "" {
		n.T.Errorf("a pod that names all GPUs in an annotation has %s", got)
	}
	n.says("names-one", "accept-cdi-annotations-when-unprivileged is false in config.toml")
	n.toolkit("acceptVisibleDevicesEnvvar=true")
}

// namesMissing checks that the errors of the runtime and of the prestart hook reach the pod.
func namesMissing(n node) {
	for class, want := range map[string]string{
		"nvidia":        "nvidia-container-runtime: inject GPUs: unresolvable CDI devices nvidia.com/gpu=GPU-none: /var/run/cdi/nvidia.com-gpu.json has 0, ",
		"nvidia-legacy": "none of the 4 GPUs of the node has this name",
	} {
		n.apply(asks("missing-"+class, class, "GPU-none"))
		n.says("missing-"+class, want)
	}
}

// replaced replaces the pod of the agent.
func replaced(n node) {
	state := func() string { return n.shell("{ " + list(config+" "+tools) + "; } | " + stack.WithoutOldTools) }
	before := state()
	n.MustKubectl("-n", stack.Namespace, "rollout", "restart", "daemonset/container-toolkit")
	n.MustKubectl("-n", stack.Namespace, "rollout", "status", "daemonset/container-toolkit", "--timeout=4m")
	if after := state(); after != before {
		n.T.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
	n.restarted(1)
}

// takenBack removes the toolkit, and then has nvidia-ctk configure CRI-O and take it back.
func (n node) takenBack(clean string) {
	same := func(by string) {
		n.T.Helper()
		if now := n.files(config); now != clean {
			n.T.Errorf("at first the config was\n%s\nand after %s\n%s", clean, by, now)
		}
	}
	n.Must(n.Uninstall(n.T.Context(), "container-toolkit"))
	same("the removal of the chart")
	n.restarted(3)
	n.shell("nvidia-ctk runtime configure --runtime=crio")
	if n.files(config) == clean {
		n.T.Error("nvidia-ctk runtime configure has changed nothing")
	}
	n.shell("nvidia-ctk runtime unconfigure --runtime=crio")
	same("nvidia-ctk runtime unconfigure")
}

// byNRI has the agent give GPUs through NRI, which needs neither a config nor a restart.
func (n node) byNRI(clean string) {
	n.toolkit("cdi.nriPluginEnabled=true")
	n.getGPUs(map[string]string{"by-nri": ""})
	n.Must(n.Uninstall(n.T.Context(), "container-toolkit"))
	if now := n.files(config); now != clean {
		n.T.Errorf("the config was\n%s\nand with NRI is\n%s", clean, now)
	}
	n.restarted(3)
}
