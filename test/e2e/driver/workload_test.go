//go:build e2e

package driver_test

import (
	"context"
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
	// All pods at once: what decides when a node changes are its slots.
	n.Until("all agents have the driver "+version, func() bool {
		images := n.MustKubectl("-n", stack.Namespace, "get", "pods", "--selector=app.kubernetes.io/name=driver-loader", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[*].image}")
		return strings.Count(images, stack.DriverTag(version)) == len(n.GPUNodes())
	})
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

// all reports whether all GPU nodes run a driver.
func (n nodes) all(version string) bool {
	n.T.Helper()
	return !slices.ContainsFunc(n.GPUNodes(), func(node string) bool {
		return !strings.Contains(n.Shell(node, "cat /proc/driver/nvidia/version 2>/dev/null || true"), " "+version+" ")
	})
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
	n nodes
	// kills tells to kill the agent of a node whose state changes.
	kills bool
	stop  func()

	mu sync.Mutex
	// cordoned are the nodes that are being upgraded, and most is how many there were at once.
	cordoned map[string]bool
	states   map[string]string
	most     int
	killed   int
	log      []string
}

// watch follows all GPU nodes until stop, and kills agents if asked to.
func (n nodes) watch(kills bool) *watcher {
	n.T.Helper()
	ctx, cancel := cancelled(n.T)
	w := &watcher{n: n, kills: kills, cordoned: map[string]bool{}, states: map[string]string{}}
	var following sync.WaitGroup
	for _, node := range n.GPUNodes() {
		api, err := n.Admin()
		n.Must(err)
		following.Go(func() {
			defer api.Close()
			if err := api.WatchNode(ctx, node, func(seen stack.Node) bool { return w.see(ctx, node, seen) }); err != nil && ctx.Err() == nil {
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
func (w *watcher) see(ctx context.Context, node string, seen stack.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	state, before := seen.Labels[stateLabel], w.states[node]
	if seen.Unschedulable {
		w.cordoned[node] = true
	} else {
		delete(w.cordoned, node)
	}
	w.most = max(w.most, len(w.cordoned))
	if state == before {
		return true
	}
	w.states[node] = state
	w.log = append(w.log, fmt.Sprintf("%s %s, cordoned %v: %s", node, state, seen.Unschedulable, seen.Annotations[causeAnnotation]))
	if w.kills && before != "" {
		w.killed++
		// Killed without notice, as a process of a pod that is deleted so is. The kubelet would start
		// the process of a pod that stays later each time.
		if _, err := w.n.Kubectl(ctx, "-n", stack.Namespace, "delete", "pod", "--selector=app.kubernetes.io/name=driver-loader",
			"--field-selector=spec.nodeName="+node, "--force", "--grace-period=0", "--wait=false"); err != nil {
			w.log = append(w.log, err.Error())
		}
	}
	return true
}
