//go:build e2e

package driver_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// workload are pods that have all GPUs of the nodes, and as many without.
const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpu}
spec:
  replicas: 3
  selector: {matchLabels: {app: gpu}}
  template:
    metadata: {labels: {app: gpu}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists, effect: NoSchedule, key: nvidia.com/gpu}]
      containers:
      - {name: c, image: "` + cluster.BusyboxImage + `", command: [sleep, "3600"], resources: {limits: {nvidia.com/gpu: 2}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cpu}
spec:
  replicas: 3
  selector: {matchLabels: {app: cpu}}
  template:
    metadata: {labels: {app: cpu}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {feature.node.kubernetes.io/pci-10de.present: "true"}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: cpu}}}
      containers:
      - {name: c, image: "` + cluster.BusyboxImage + `", command: [sleep, "3600"]}
`

const budget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: gpu}
spec:
  minAvailable: 3
  selector: {matchLabels: {app: gpu}}
`

// workloadRuns waits until all pods of the workload run.
func (n nodes) workloadRuns() {
	n.T.Helper()
	n.MustKubectl("wait", "deployment/gpu", "deployment/cpu", "--for=jsonpath={.status.availableReplicas}=3", "--timeout", limit.String())
}

// pods returns the pods of a deployment: a line with node and uid for each.
func (n nodes) pods(app string) string {
	n.T.Helper()
	out := strings.Split(n.MustKubectl("get", "pods", "--selector=app="+app, "--field-selector=status.phase=Running", "-o", `jsonpath={range .items[*]}{.spec.nodeName} {.metadata.uid}{"\n"}{end}`), "\n")
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// driverStarts changes the driver of the chart, and does not wait.
func (n nodes) driverStarts(version string) {
	n.T.Helper()
	r, err := n.DriverLoader(version)
	n.Must(err)
	r.NoWait = true
	n.Must(n.Install(n.T.Context(), r))
	// All pods at once: a grant decides when a node changes.
	n.Until("all agents have the driver "+version, func() bool {
		images := n.MustKubectl("-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name=driver-loader", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[*].image}")
		return strings.Count(images, stack.DriverTag(version)) == len(n.GPUNodes())
	})
}

// grants returns the nodes that have a grant.
func (n nodes) grants() (names []string) {
	n.T.Helper()
	out := n.MustKubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations.outrigger\.dev/driver-upgrade-granted}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 {
			names = append(names, fields[0])
		}
	}
	return names
}

// dies stops the kubelet of a node, and then kills its agent.
func (n nodes) dies(node string) {
	n.T.Helper()
	id := n.MustKubectl("-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name=driver-loader", "--field-selector=spec.nodeName="+node,
		"-o", "jsonpath={.items[0].status.containerStatuses[0].containerID}")
	n.Must(n.Stop(n.T.Context(), "kubelet", node))
	n.Shell(node, "ctr --namespace k8s.io tasks kill --signal SIGKILL "+strings.TrimPrefix(id, "containerd://"))
}

// state waits until nodes have a state of an upgrade.
func (n nodes) state(state string, names ...string) {
	n.T.Helper()
	for _, name := range names {
		n.Until(name+" is "+state, func() bool {
			return n.MustKubectl("get", "node", name, "-o", `jsonpath={.metadata.labels.nvidia\.com/gpu-driver-upgrade-state}`) == state
		})
	}
}

// all waits until all GPU nodes run a driver. Each has the time of one, since they take turns.
func (n nodes) all(version string) {
	n.T.Helper()
	nodes := n.GPUNodes()
	for number := range nodes {
		n.Until(fmt.Sprintf("%d of %d nodes run driver %s", number+1, len(nodes), version), func() bool {
			run := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
				return !strings.Contains(n.Shell(node, "cat /proc/driver/nvidia/version 2>/dev/null || true"), " "+version+" ")
			})
			return len(run) > number
		})
	}
}

// runs checks which driver nodes run.
func (n nodes) runs(version string, names ...string) {
	n.T.Helper()
	for _, node := range names {
		if got := n.Shell(node, "cat /proc/driver/nvidia/version; cat /sys/module/nvidia_uvm/version"); !strings.Contains(got, " "+version+" ") || !strings.HasSuffix(got, version) {
			n.T.Errorf("%s runs %s, want %s", node, got, version)
		}
	}
}

// watcher sees how nodes go through their upgrades.
type watcher struct {
	stop func()

	mu     sync.Mutex
	seen   []seen
	states map[string]string
	log    []string
}

// seen is a Node as a watch has shown it. The watches do not show the Nodes in the order of their changes.
type seen struct {
	name string
	stack.Node
}

// most returns how many nodes were cordoned, and so were being upgraded, at once.
func (w *watcher) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.seen, func(a, b seen) int { return cmp.Compare(a.Version, b.Version) })
	cordoned, most := map[string]bool{}, 0
	for _, n := range w.seen {
		if delete(cordoned, n.name); n.Unschedulable {
			cordoned[n.name] = true
		}
		most = max(most, len(cordoned))
	}
	return most
}

// watch follows all GPU nodes until stop.
func (n nodes) watch() *watcher {
	n.T.Helper()
	ctx, cancel := cancelled(n.T)
	w := &watcher{states: map[string]string{}}
	var following sync.WaitGroup
	for _, node := range n.GPUNodes() {
		api, err := n.Admin()
		n.Must(err)
		following.Go(func() {
			defer api.Close()
			if err := api.WatchNode(ctx, node, func(seen stack.Node) bool { return w.see(node, seen) }); err != nil && ctx.Err() == nil {
				n.T.Error(err)
			}
		})
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		following.Wait()
	})
	n.T.Cleanup(w.stop)
	return w
}

// see notes a state of a node.
func (w *watcher) see(node string, now stack.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, seen{node, now})
	if state := now.Labels[stateLabel]; state != w.states[node] {
		w.states[node] = state
		w.log = append(w.log, fmt.Sprintf("%s %s, cordoned %v: %s", node, state, now.Unschedulable, now.Annotations[causeAnnotation]))
	}
	return true
}
