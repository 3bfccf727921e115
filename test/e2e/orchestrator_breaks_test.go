//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// incident is something that breaks a cluster.
type incident struct {
	name string
	// begin breaks the cluster, and end repairs it if that is not the orchestrator's work.
	begin, end func(t *testing.T)
	// cause is in the condition Degraded, or in the condition Ready if degraded is unset.
	cause string
	// state is the state of the policy meanwhile.
	state string
	// quiet says that the incident is no failure: there is no Warning, and Ready has the cause.
	quiet bool
	// ready says that the condition Ready has the cause.
	ready bool
	// event is an Event that has to be sent.
	event string
	// doctor has the code that doctor names first, or several, of which it names one. It is empty if nothing has failed.
	doctor string
	// last waits while the incident lasts, after it was told.
	last func(t *testing.T)
}

// incidents has the ways to break a cluster that heals without Helm.
func incidents() []incident {
	simulated := func(args ...string) func(*testing.T) {
		return func(t *testing.T) { simulate(t, args[0], args[1:]...) }
	}
	each := func(command string) func(*testing.T) {
		return func(t *testing.T) {
			for i := range gpus {
				simulate(t, command, fmt.Sprint(i))
			}
		}
	}
	patch := func(text string) func(*testing.T) { return func(t *testing.T) { patchPolicy(t, text) } }
	label := func(text string) func(*testing.T) {
		return func(t *testing.T) {
			kubectl(t, "label", "node", gpuNode(), "--overwrite", "nvidia.com/gpu.deploy.operands"+text)
		}
	}
	return []incident{
		{name: "all GPUs of a node lost", begin: each("lose"), end: each("heal"), cause: "AllGPUsFaulty", doctor: "AllGPUsFaulty", state: "notReady"},
		// The XID of a GPU that leaves the bus comes with its loss. If the plugin sees the XID first, that is the cause.
		{name: "one GPU lost", begin: simulated("lose", "0"), end: simulated("heal", "0"), cause: "GPUsFaulty", doctor: "lost xid", state: "ready"},
		{name: "driver lost", begin: simulated("set", "driver=off"), end: simulated("set", "driver=on"), cause: "DriverNotFound", doctor: "DriverNotFound", state: "notReady"},
		{name: "a DaemonSet edited", begin: func(t *testing.T) {
			kubectl(t, "-n", stack.Namespace, "patch", "daemonset/outrigger-device-plugin", "--type=merge", "-p", `{"spec":{"template":{"spec":{"priorityClassName":""}}}}`)
		}, cause: "GPU node ready", state: "ready", quiet: true, event: "Normal DriftRepaired"},
		{name: "a node opted out", begin: label("=false"), end: label("-"), cause: "1 opted out", doctor: "NodeOptedOut", state: "notReady", quiet: true},
		// Each start changes the status of the pod: running, and a crash again. That must not be reported again.
		{name: "an exporter that crashes", begin: patch(`{"spec":{"dcgmExporter":{"extraArgs":["--no-such-flag"]}}}`), end: patch(`{"spec":{"dcgmExporter":{"extraArgs":null}}}`), cause: "CrashLoopBackOff", doctor: "CrashLoopBackOff", state: "ready", last: exporterStartsAgain},
		{name: "containerd's config destroyed", begin: func(t *testing.T) {
			onGPUNode(t, "cp -a /etc/containerd /etc/containerd.kept && rm -rf /etc/containerd/conf.d && echo 'version = 3' >/etc/containerd/config.toml")
			eventually(t, "the toolkit has configured containerd again", func() bool {
				return onGPUNode(t, "ls /etc/containerd/conf.d || true") == "99-nvidia.toml"
			})
		}, end: func(t *testing.T) {
			// The file has the folder of the CNI plugins too, which the toolkit cannot know.
			if err := shared.Stop(t.Context(), "containerd", gpuNode()); err != nil {
				t.Error(err)
			}
			onGPUNode(t, "cp /etc/containerd.kept/config.toml /etc/containerd/config.toml")
			eventually(t, "the runtimes have the options of the file again", func() bool {
				return onGPUNode(t, "cmp -s /etc/containerd.kept/conf.d/99-nvidia.toml /etc/containerd/conf.d/99-nvidia.toml && echo same || true") == "same"
			})
			onGPUNode(t, "rm -r /etc/containerd.kept")
			if err := shared.Start(t.Context(), "containerd", gpuNode()); err != nil {
				t.Error(err)
			}
		}, cause: "GPU node ready", state: "ready", quiet: true},
		// The images of the other agents fail in the same way. "the first cause comes first" has the toolkit's.
		badImage(),
		{name: "a wrong value by patch", begin: patch(`{"spec":{"devicePlugin":{"version":"not a tag"}}}`), end: patch(`{"spec":{"devicePlugin":{"version":null}}}`), cause: "devicePlugin.version", doctor: "ValuesRefused", state: "notReady"},
	}
}

// badImage gives the device plugin an image that does not exist. Meanwhile the status has the stage, the node and a
// fix, the stages before it stay ready, and nothing but the DaemonSet is written.
func badImage() incident {
	var before map[string]string
	return incident{
		name: "a wrong image of device-plugin", cause: "ImagePullBackOff", doctor: "ImagePullBackOff", state: "notReady",
		begin: func(t *testing.T) {
			before = versions(t)
			patchPolicy(t, `{"spec":{"devicePlugin":{"version":"26.11.0-missing"}}}`)
		},
		last: func(t *testing.T) {
			var p stack.Policy
			eventually(t, "the status names node, cause and fix", func() bool {
				p = readPolicy(t)
				return p.Current() && slices.ContainsFunc(p.Status.Problems, func(found stack.Problem) bool {
					return found.Stage == "device-plugin" && strings.Contains(found.Cause, "Image") &&
						slices.Contains(found.Examples, gpuNode()) && found.Fix != ""
				})
			})
			for _, name := range []string{"container-toolkit", "feature-discovery"} {
				if s := stageOf(p, name); s.State != "Ready" {
					t.Errorf("stage %s is %s: %s", name, s.State, s.Message)
				}
			}
			if names := changed(before, versions(t)); !slices.Equal(names, []string{"DaemonSet outrigger-device-plugin"}) {
				t.Errorf("changed %v, want only the DaemonSet", names)
			}
		},
		end: func(t *testing.T) {
			patchPolicy(t, `{"spec":{"devicePlugin":{"version":null}}}`)
			allocatable(t, gpus, limit)
		},
	}
}

// policyEvents returns the Events of the policy, as "TYPE REASON", by uid.
func policyEvents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	out := kubectl(t, "-n", "default", "get", "events", "--field-selector=involvedObject.kind=ClusterPolicy", "-o", `jsonpath={range .items[*]}{.metadata.uid} {.type} {.reason}: {.message}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		uid, event, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[uid] = event
	}
	return found
}

// newEvents returns the Events of the policy that are not in before and have this beginning.
func newEvents(t *testing.T, before map[string]string, prefix string) (out []string) {
	t.Helper()
	for uid, event := range policyEvents(t) {
		if before[uid] == "" && strings.HasPrefix(event, prefix) {
			out = append(out, event)
		}
	}
	slices.Sort(out)
	return out
}

// calm waits until the policy is ready and nothing has failed.
func calm(t *testing.T) {
	t.Helper()
	eventually(t, "the policy is ready, and nothing has failed", func() bool {
		p := readPolicy(t)
		return p.Ready() && p.Condition("Degraded").Status == "False"
	})
}

// incidentsAreTold breaks the cluster in many ways, and prints a table: the seconds until the status
// has the cause, the state of the policy, and its Events. Exactly one Warning reports each incident.
func incidentsAreTold(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "INCIDENT\tTOLD AFTER\tSTATE\tHEALED AFTER\tEVENTS\tMESSAGE")
	for _, tc := range incidents() {
		healed := t.Run(tc.name, func(t *testing.T) {
			calm(t)
			before, began := policyEvents(t), time.Now()
			if tc.end != nil {
				defer func() {
					if t.Failed() {
						describeOrchestrator(t)
						tc.end(t)
					}
				}()
			}
			tc.begin(t)
			told, p := tc.wait(t, before, began)
			state := p.Status.State
			if tc.doctor != "" {
				namesFirst(t, tc.doctor)
			}
			if tc.last != nil {
				tc.last(t)
			}
			began = time.Now()
			if tc.end != nil {
				tc.end(t)
			}
			calm(t)
			healed := time.Since(began)
			warnings := newEvents(t, before, "Warning")
			fmt.Fprintf(w, "%s\t%.0f s\t%s\t%.0f s\t%d\t%s\n", tc.name, told.Seconds(), state, healed.Seconds(), len(warnings), p.Condition(tc.condition()).Message)
			if state != tc.state {
				t.Errorf("the policy is %s, want %s: %+v", state, tc.state, p.Status.Conditions)
			}
			if tc.quiet && len(warnings) > 0 || !tc.quiet && len(warnings) != 1 {
				t.Errorf("the Warnings are %q", warnings)
			}
		})
		if !healed {
			t.Fatal("the next incidents need a cluster that works")
		}
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}

func (i incident) condition() string {
	if i.quiet || i.ready {
		return "Ready"
	}
	return "Degraded"
}

// wait waits until the status has the cause, and returns how long that took since began.
func (i incident) wait(t *testing.T, before map[string]string, began time.Time) (told time.Duration, p stack.Policy) {
	t.Helper()
	eventually(t, "the status has "+i.cause, func() bool {
		p = readPolicy(t)
		c := p.Condition(i.condition())
		return strings.Contains(c.Message, i.cause) && (i.quiet || i.ready || c.Status == "True") && (i.event == "" || len(newEvents(t, before, i.event)) > 0)
	})
	return time.Since(began), p
}

// exporterStartsAgain waits until the kubelet has started the exporter once more, and it has crashed.
func exporterStartsAgain(t *testing.T) {
	t.Helper()
	status := func() string {
		return kubectl(t, "-n", stack.Namespace, "get", "pods", "--selector=app=nvidia-dcgm-exporter", "-o",
			`jsonpath={.items[*].status.containerStatuses[*].restartCount} {.items[*].status.containerStatuses[*].state.waiting.reason}`)
	}
	before := status()
	eventually(t, "the exporter has crashed again", func() bool {
		now := status()
		return now != before && strings.HasSuffix(now, " CrashLoopBackOff")
	})
}

// rollOutsAreQuiet changes a value of the agents that GPUs need and of feature discovery, which reports
// that a node is ready, and a value of one of them again: the policy stays ready, and there is no Warning.
// Only the DaemonSets of the agent change.
func rollOutsAreQuiet(t *testing.T) {
	calm(t)
	events := policyEvents(t)
	ctx, stop := context.WithCancel(t.Context())
	left := make(chan string, 1)
	go func() {
		bad := ""
		for ctx.Err() == nil {
			if p, err := shared.Policy(ctx); err == nil && p.Status.State != "ready" {
				bad = cmp.Or(bad, p.Condition("Ready").Message)
			}
			time.Sleep(200 * time.Millisecond) //nolint:forbidigo // it looks at the policy all the time
		}
		left <- bad
	}()
	for i, agent := range []struct{ key, name string }{{"gfd", "feature-discovery"}, {"toolkit", "container-toolkit"}, {"devicePlugin", "device-plugin"}, {"gfd", "feature-discovery"}} {
		before := versions(t)
		patchPolicy(t, fmt.Sprintf(`{"spec":{"%s":{"podLabels":{"example.com/roll-out":"%d"}}}}`, agent.key, i))
		eventually(t, "the roll-out begins", func() bool { return len(changed(before, versions(t))) > 0 })
		calm(t)
		if names := changed(before, versions(t)); slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "DaemonSet outrigger-"+agent.name) }) {
			t.Errorf("%s: changed %v", agent.key, names)
		}
	}
	stop()
	if bad := <-left; bad != "" {
		t.Errorf("the policy was not ready: %s", bad)
	}
	if warnings := newEvents(t, events, "Warning"); len(warnings) > 0 {
		t.Errorf("the Warnings are %q", warnings)
	}
}
