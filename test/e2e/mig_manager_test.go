//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

const (
	migConfig = stack.MIGConfig
	migState  = "nvidia.com/mig.config.state"
	mig7g     = "nvidia.com/mig-7g.80gb"
)

// layouts are configs of the first GPU of the node.
const layouts = `config.data.config\.yaml=version: v1
mig-configs:
  small:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      1g.10gb: 4
      3g.40gb: 1
  big:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      7g.80gb: 1
  whole:
  - devices: [0]
    mig-enabled: false
  impossible:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      7g.80gb: 2
`

// migManager installs the MIG manager until the test ends.
func migManager(t *testing.T, values ...string) {
	t.Helper()
	kubectl(t, "label", "node", gpuNode(), "--overwrite", "nvidia.com/gpu.deploy.mig-manager=true")
	t.Cleanup(func() {
		if t.Failed() {
			out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "-n", stack.Namespace, "logs", "daemonset/mig-manager", "--tail=40")
			t.Logf("the log of mig-manager (error %v):\n%s", err, out)
		}
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "mig-manager"); err != nil {
			t.Error(err)
		}
		kubectlCleanup(t, "label", "node", gpuNode(), "nvidia.com/gpu.deploy.mig-manager-", migConfig+"-", migState+"-")
		for _, command := range [][]string{{"mig destroy", "0", "all"}, {"mig mode", "0", "off"}} {
			if _, err := shared.Simulate(context.WithoutCancel(t.Context()), gpuNode(), command[0], command[1:]...); err != nil {
				t.Log(err) // it is off already
			}
		}
	})
	release, err := shared.Agent("mig-manager", append([]string{"config.create=true", "config.name=layouts", layouts}, values...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
}

// askForLayout labels the node.
func askForLayout(t *testing.T, config string) {
	t.Helper()
	kubectl(t, "label", "node", gpuNode(), "--overwrite", migConfig+"="+config)
}

// layoutIs waits until the node shows a state, and returns the cause.
func layoutIs(t *testing.T, state string, parts ...string) {
	t.Helper()
	const show = `jsonpath={.metadata.labels.nvidia\.com/mig\.config\.state} {.metadata.annotations.outrigger\.dev/mig-config-cause}`
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("the node shows %q", last)
		}
	}()
	eventually(t, "the state is "+state+" "+strings.Join(parts, " "), func() bool {
		last = kubectl(t, "get", "node", gpuNode(), "-o", show)
		is, cause, _ := strings.Cut(last, " ")
		for _, part := range parts {
			if !strings.Contains(cause, part) {
				return false
			}
		}
		return is == state
	})
}

// TestMIGManager changes the layout of a GPU by the label of the node, with a device plugin and a
// manager that run on.
func TestMIGManager(t *testing.T) {
	pluginOfExamples(t)
	allocatable(t, gpus, limit)
	migManager(t)
	pod := pluginPod(t)

	t.Run("allocatable follows the label", func(t *testing.T) {
		began := time.Now()
		askForLayout(t, "small")
		advertised(t, mig1g, 4, 5*time.Second)
		advertised(t, mig3g, 1, 5*time.Second)
		t.Logf("advertised %s after the label", time.Since(began))
		allocatable(t, gpus-1, settles)
		layoutIs(t, "success")
		if _, err := shared.RunPod(t.Context(), stack.Pod{Name: "on-new-layout", Resource: mig3g}, limit); err != nil {
			t.Error(err)
		}
	})
	t.Run("a pod holds it back", func(t *testing.T) {
		hold(t, mig1g, 1)
		askForLayout(t, "big")
		layoutIs(t, "pending", "default/holder-nvidia-com-mig-1g-10gb-1-0", "1g.10gb of GPU 0")
		eventually(t, "an Event of the node names the pod", func() bool {
			events := kubectl(t, "describe", "node", gpuNode())
			return strings.Contains(events, "MIGConfigWaiting") && strings.Contains(events, "holder-nvidia-com-mig-1g-10gb-1-0")
		})
		advertised(t, mig3g, 1, settles)
		kubectl(t, "delete", "pod", "holder-nvidia-com-mig-1g-10gb-1-0", "--wait")
		layoutIs(t, "success")
		advertised(t, mig7g, 1, settles)
		advertised(t, mig1g, 0, settles)
	})
	t.Run("a failure shows its cause", func(t *testing.T) {
		askForLayout(t, "nonsense")
		layoutIs(t, "failed", "nonsense", "all-balanced", "small")
		askForLayout(t, "impossible")
		layoutIs(t, "failed", "7g.80gb")
		advertised(t, mig7g, 1, settles)
	})
	t.Run("an orphaned lease does not block", func(t *testing.T) {
		onGPUNode(t, "printf 'OUTRIGGER_BOOT_ID=%s\\nOUTRIGGER_WRITER=driver-loader\\nOUTRIGGER_HELD=true\\nOUTRIGGER_REASON=died\\n"+
			"OUTRIGGER_DEADLINE_BOOTTIME_NS=9000000000000000000\\n' \"$(cat /proc/sys/kernel/random/boot_id)\" > /run/nvidia/leases/nvml.claim")
		askForLayout(t, "all-disabled")
		layoutIs(t, "success")
		allocatable(t, gpus, settles)
		advertised(t, mig7g, 0, settles)
	})
	t.Run("the examples run", examplesRun)
	if now := pluginPod(t); now != pod {
		t.Errorf("the device plugin's pod %s became %s, want the same pod", pod, now)
	}
	t.Run("what is published goes with the agent", whatIsPublishedGoes)
}

// whatIsPublishedGoes takes the agent off the node by a label, and then uninstalls it.
func whatIsPublishedGoes(t *testing.T) {
	if got := kubectl(t, "-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name=mig-manager", "-o",
		"jsonpath={.items[*].status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the manager was restarted %s times, want 0", got)
	}
	api, err := shared.Admin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(shared.Uninstall(ctx, featureDiscovery), forget(ctx, api, gpuNode())); err != nil {
			t.Error(err)
		}
		kubectlCleanup(t, "label", "node", gpuNode(), "--overwrite", stack.PCILabel+"=true")
	})
	installDiscovery(t, false, "readyChain={driver,mig}")
	askForLayout(t, "nonsense")
	layoutIs(t, "failed", "nonsense")
	nodeIs(t, api, gpuNode(), "the layouts are as they were asked for", readyIs("True", ""))
	const fact = "test -e /run/nvidia/validations/mig-ready && echo there || echo missing"
	gone := func() {
		t.Helper()
		layoutIs(t, "")
		if got := kubectl(t, "get", "node", gpuNode(), "-o", `jsonpath={.metadata.labels.nvidia\.com/mig\.config} [{.metadata.annotations.outrigger\.dev/mig-config-cause}]`); got != "nonsense []" {
			t.Errorf("the node is left with %q, want no cause, and the label of the user", got)
		}
		eventually(t, "the fact is gone", func() bool { return strings.TrimSpace(onGPUNode(t, fact)) == "missing" })
	}
	const deploy = "nvidia.com/gpu.deploy.mig-manager="
	kubectl(t, "label", "node", gpuNode(), "--overwrite", deploy+"false")
	gone()
	nodeIs(t, api, gpuNode(), "nobody waits for the layouts", readyIs("True", ""))

	kubectl(t, "label", "node", gpuNode(), "--overwrite", deploy+"true")
	nodeIs(t, api, gpuNode(), "the layouts are awaited again", readyIs("False", "MIGNotReady"))
	layoutIs(t, "failed", "nonsense")
	kubectl(t, "-n", stack.Namespace, "delete", "daemonset", "mig-manager", "--cascade=foreground", "--wait")
	gone()
}

// evictsByUIDOnly asks for evictions with the token of the agent, without effect (dry run).
func evictsByUIDOnly(t *testing.T, pod string) {
	agent := account(t, podOf(t, "mig-manager", gpuNode()))
	unbound, err := shared.Account(t.Context(), "mig-manager")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unbound.Close)
	uid := object{"preconditions": object{"uid": kubectl(t, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")}}
	for name, r := range map[string]struct {
		api       *stack.API
		namespace string
		options   object
		denied    string
	}{
		"a pod by its uid":            {options: uid},
		"a pod by its name":           {denied: byPolicy},
		"a pod at once":               {options: object{"preconditions": uid["preconditions"], "gracePeriodSeconds": 0}, denied: byPolicy},
		"a pod of the cluster itself": {namespace: "kube-system", options: uid, denied: byPolicy},
		"with a token of no node":     {api: unbound, options: uid, denied: byPolicy},
	} {
		t.Run("evict "+name, func(t *testing.T) {
			namespace, api := cmp.Or(r.namespace, "default"), cmp.Or(r.api, agent)
			check(t, api.Create(t.Context(), "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction?dryRun=All", object{
				"apiVersion": "policy/v1", "kind": "Eviction",
				"metadata": object{"name": pod, "namespace": namespace}, "deleteOptions": r.options,
			}), r.denied)
		})
	}
}

// TestMIGManagerEvicts evicts the pod that holds what goes, and no other.
func TestMIGManagerEvicts(t *testing.T) {
	pluginWith(t, "migStrategy=mixed")
	allocatable(t, gpus, limit)
	migManager(t, "gpuPods=evict")
	askForLayout(t, "small")
	layoutIs(t, "success")
	advertised(t, mig1g, 4, settles)
	hold(t, mig1g, 1)
	hold(t, stack.GPU, 1)
	evictsByUIDOnly(t, "holder-nvidia-com-gpu-1-0")
	askForLayout(t, "big")
	layoutIs(t, "success")
	advertised(t, mig7g, 1, settles)
	if got := kubectl(t, "get", "pods", "--selector=test=holder", "-o", "jsonpath={.items[*].metadata.name}"); got != "holder-nvidia-com-gpu-1-0" {
		t.Errorf("the pods %q are left, want the one with a whole GPU", got)
	}
	if got := kubectl(t, "get", "node", gpuNode(), "-o", "jsonpath={.spec.unschedulable}"); got != "" {
		t.Errorf("the node is left cordoned: %q", got)
	}
}
