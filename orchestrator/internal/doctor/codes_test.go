package doctor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// codes reads the table of causes.
func codes(t *testing.T) (all []cause.Code) {
	t.Helper()
	table, err := os.ReadFile("../../../pkg/cause/causes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if cells := strings.Split(line, "\t"); len(cells) == 6 && cells[0] != "section" {
			all = append(all, cause.Code(cells[2]))
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d codes", len(all))
	}
	return all
}

// place builds the facts in which an agent, the kubelet or the orchestrator reports a code in one way, and returns the
// target of the diagnosis.
type place struct {
	name  string
	build func(t *testing.T, c *cluster, code cause.Code) facts.Target
}

func onNode() facts.Target { return facts.Target{Node: node} }

// places returns the ways in which a code is published.
func places(code cause.Code) []place {
	switch section := code.Row().Section; section {
	case "driver":
		return placesOfDriver(code)
	case "upgrade":
		return []place{{"annotation", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			n := c.node(node)
			n.Labels["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-failed"
			n.Annotations["outrigger.dev/driver-upgrade-cause"] = cause.New(code, "driver 580", "it is so").Line()
			return onNode()
		}}}
	case "license":
		return []place{{"event", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			c.event("Node", "", node, string(code), "GPU-0: NVIDIA RTX Virtual Workstation: Unlicensed")
			return onNode()
		}}}
	case "node":
		return []place{{"condition", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			c.unready(node, code)
			return onNode()
		}}}
	case "pod":
		return placesOfPods(code)
	case "device":
		return placesOfDevices(code)
	case "mig":
		return []place{{"label", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			n := c.node(node)
			n.Labels["nvidia.com/mig.config"] = "all-1g.10gb"
			n.Labels["nvidia.com/mig.config.state"] = map[cause.Code]string{
				cause.MIGConfigWaiting: "pending", cause.MIGConfigRebooting: "rebooting", cause.MIGConfigFailed: "failed",
			}[code]
			n.Annotations["outrigger.dev/mig-config-cause"] = "GPU 0: it is so"
			return onNode()
		}}}
	case "request":
		if build := requests()[code]; build != nil {
			return []place{{"objects", build}}
		}
	case "policy":
		if build := policies()[code]; build != nil {
			return []place{{"status", build}}
		}
	}
	return nil
}

func placesOfDriver(code cause.Code) []place {
	switch code { //nolint:exhaustive // the others are in other places
	case cause.NoGPU:
		return []place{{"condition", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			c.unready(node, code)
			return onNode()
		}}}
	case cause.RDMAUnavailable, cause.GDSUnavailable, cause.GDRCopyUnavailable:
		return []place{{"condition", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			n := c.node(node)
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: "GPUOptionalModulesLoaded", Status: corev1.ConditionFalse, Reason: string(code), Message: cause.New(code, "module", "it is so").Line(),
			})
			return onNode()
		}}}
	}
	broken := func(c *cluster) {
		c.unready(node, cause.DriverNotFound)
		c.notReady(facts.DriverLoader, node)
	}
	said := func(code cause.Code) cause.Cause { return cause.New(code, "the thing", "it is so") }
	return []place{
		{"readyz", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			broken(c)
			c.answers(facts.DriverLoader, node, "", "driver-loader: probe the agent: readyz answers 503: "+said(code).Line(), "probe", "readyz")
			return onNode()
		}},
		{"plan", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			broken(c)
			c.answers(facts.DriverLoader, node, encoded(map[string]any{"checks": []any{}, "next": map[string]any{"kind": "wait", "causes": []any{said(code)}}}), "", "plan", "--output=json")
			return onNode()
		}},
		{"event", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			broken(c)
			c.event("Node", "", node, "GPUDriverBuildFailed", said(code).Line())
			return onNode()
		}},
		{"upgrade", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			c.node(node).Labels["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-failed"
			c.node(node).Annotations["outrigger.dev/driver-upgrade-cause"] = said(code).Line()
			return onNode()
		}},
	}
}

func placesOfPods(code cause.Code) []place {
	switch code { //nolint:exhaustive // the others are in other places
	case cause.NodeNotReady:
		return []place{{"condition", func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
			c.node(node).Status.Conditions[0].Status = corev1.ConditionUnknown
			return onNode()
		}}}
	case cause.PoolsOverlap:
		return []place{{"status", func(t *testing.T, c *cluster, code cause.Code) facts.Target {
			c.policy(t, model.Status{Problems: []model.Problem{{Cause: string(code), Nodes: 1, Examples: []string{node}, Message: "pools a and b select it"}}})
			return onNode()
		}}}
	case cause.Unschedulable:
		return []place{{"pod", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			c.fails(facts.DevicePlugin, node, code)
			return facts.Target{}
		}}}
	}
	return []place{{"pod", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
		c.fails(facts.DevicePlugin, node, code)
		return onNode()
	}}}
}

func placesOfDevices(code cause.Code) []place {
	event := func(reason cause.Code, message string) place {
		return place{"event " + string(reason), func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
			if reason != cause.GPUIndexShifted {
				offer(c.node(node), gpu, 7, 8)
				c.node(node).Status.Conditions[1].Message = "7 of 8 GPUs"
			}
			if reason == cause.GPUsNotOffered {
				c.unready(node, cause.PluginNotReady)
			}
			c.event("Node", "", node, string(reason), message)
			return onNode()
		}}
	}
	switch code { //nolint:exhaustive // the others are in other places
	case cause.DeviceUnhealthy, cause.DeviceNotOffered, cause.GPUsNotOffered, cause.ConfigRefused, cause.GPUIndexShifted:
		return []place{event(code, "nvidia.com/gpu 0 GPU-0: it is so")}
	case cause.DeviceExcluded: // a config excludes it on purpose, so only the log and "explain" have it
		return []place{event(cause.DeviceNotOffered, string(code)+": 0 GPU-0: it is so")}
	}
	explained := place{"explain", func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
		offer(c.node(node), gpu, 7, 8)
		c.answers(facts.DevicePlugin, node, encoded(map[string]any{"resources": []any{map[string]any{"name": gpu, "devices": []any{
			map[string]any{"index": "0", "uuid": "GPU-0", "healthy": false, "kind": code, "reason": "it is so"},
		}}}}), "", "explain", "--output=json")
		return onNode()
	}}
	return []place{
		explained,
		event(cause.DeviceUnhealthy, string(code)+": nvidia.com/gpu 0 GPU-0: it is so"),
		event(cause.DeviceNotOffered, string(code)+": 0 GPU-0: it is so"),
		event(cause.GPUsNotOffered, string(code)+": it is so"),
	}
}

// policies makes the facts for the codes of ClusterPolicies.
func policies() map[cause.Code]func(*testing.T, *cluster, cause.Code) facts.Target {
	condition := func(kind string, status metav1.ConditionStatus) func(*testing.T, *cluster, cause.Code) facts.Target {
		return func(t *testing.T, c *cluster, code cause.Code) facts.Target {
			reason := string(code)
			if kind == model.ConditionOtherOperator {
				reason = model.ReasonObjectsFound
			}
			c.policy(t, model.Status{Conditions: []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: "it is so", LastTransitionTime: ago(time.Hour)}}})
			return facts.Target{}
		}
	}
	return map[cause.Code]func(*testing.T, *cluster, cause.Code) facts.Target{
		cause.ValuesRefused: condition(model.ConditionReady, metav1.ConditionFalse), cause.NFDLabelsMissing: condition(model.ConditionReady, metav1.ConditionFalse),
		cause.ReconcileFailed: condition(model.ConditionDegraded, metav1.ConditionTrue), cause.ValidationFailed: condition(model.ConditionDegraded, metav1.ConditionTrue),
		cause.OtherOperator: condition(model.ConditionOtherOperator, metav1.ConditionTrue),
		cause.LeftBehind: func(_ *testing.T, c *cluster, code cause.Code) facts.Target {
			c.event("ClusterPolicy", "", "gpus", string(code), "fields remain on n1")
			return facts.Target{}
		},
	}
}

// TestEachCodeIsNamedFirst has each code of the table, in each place where it is published.
func TestEachCodeIsNamedFirst(t *testing.T) {
	for _, code := range codes(t) {
		all := places(code)
		if len(all) == 0 {
			t.Errorf("no case has the code %s: add the facts in which it is published", code)
		}
		for _, p := range all {
			t.Run(string(code)+" "+p.name, func(t *testing.T) {
				c := healthy(node)
				target := p.build(t, c, code)
				r := doctor.Diagnose(c.Facts, target)
				if len(r.Findings) == 0 || r.Findings[0].Code != code {
					t.Fatalf("want %s first, got:\n%s", code, text(r))
				}
				f := r.Findings[0]
				if f.Severity != code.Row().Severity || f.Evidence == "" || f.Source == "" || f.Fix == "" || f.Subject == "" || f.Link == "" || !strings.HasSuffix(f.Docs, "#cause-"+strings.ToLower(string(code))) {
					t.Errorf("incomplete: %+v", f)
				}
				if strings.Contains(f.Fix, "NODE") || strings.Contains(f.Fix, "NAMESPACE") || strings.Contains(f.Fix, "POD ") {
					t.Errorf("the fix has no name: %s", f.Fix)
				}
				if (r.ExitCode() == 0) != (code == cause.GPUIndexShifted) || r.Verdict == "" {
					t.Errorf("exit code %d, verdict %q", r.ExitCode(), r.Verdict)
				}
			})
		}
	}
}

func text(r doctor.Report) string {
	var b strings.Builder
	_ = doctor.Write(&b, r)
	return b.String()
}

// TestAHealthyClusterHasNoFinding is the other side of TestEachCodeIsNamedFirst.
func TestAHealthyClusterHasNoFinding(t *testing.T) {
	c := healthy(node, "n2")
	c.user("train", node, map[string]int64{gpu: 1})
	for _, target := range []facts.Target{{}, onNode(), {Namespace: "team", Pod: "train"}} {
		if r := doctor.Diagnose(c.Facts, target); len(r.Findings) > 0 || r.ExitCode() != 0 {
			t.Errorf("%s:\n%s", target, text(r))
		}
	}
}

// TestWhatCannotBeReadIsNotHealthy has callers without rights.
func TestWhatCannotBeReadIsNotHealthy(t *testing.T) {
	for _, what := range []string{"nodes", "the file nodes.yaml", "the file gpu_nodes.descr", "3 of 3 nodes", ""} {
		f := healthy().Facts
		if what != "" {
			f.Unseen = []facts.Unseen{{What: what, Why: "forbidden"}}
		}
		for _, target := range []facts.Target{{}, onNode()} {
			if r := doctor.Diagnose(f, target); r.ExitCode() != 1 || !strings.Contains(r.Verdict, "could not be read") {
				t.Errorf("%s without %q: exit code %d, %s", target, what, r.ExitCode(), r.Verdict)
			}
		}
	}
	for what, verdict := range map[string]string{
		"": "pod team/train does not exist", "Events of the namespace team": "pod team/train does not exist", "the file a/pods.yaml": "pod team/train could not be read",
		"pods outside of the namespace of NVIDIA's GPU Operator": "pod team/train could not be read",
	} {
		c := healthy(node)
		if what != "" {
			c.Unseen = []facts.Unseen{{What: what, Why: "forbidden"}}
		}
		if r := doctor.Diagnose(c.Facts, ofTrain()); r.ExitCode() != 1 || r.Verdict != verdict {
			t.Errorf("without %q: exit code %d, %s", what, r.ExitCode(), r.Verdict)
		}
	}
	c := healthy(node)
	c.Unseen = []facts.Unseen{{What: "DaemonSets", Why: "forbidden"}}
	if r := doctor.Diagnose(c.Facts, facts.Target{}); r.ExitCode() != 0 || !strings.Contains(r.Verdict, "1 part could not be read") {
		t.Errorf("exit code %d, %s", r.ExitCode(), r.Verdict)
	}
}
