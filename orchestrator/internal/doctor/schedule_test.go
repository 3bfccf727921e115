package doctor_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// plain adds a node without GPUs.
func (c *cluster) plain(name string) {
	n := c.unserved(name)
	n.Labels = nil
}

// TestTheReasonOfTheScheduler has pods that the scheduler places nowhere for a reason that is not about GPUs. It is first,
// although GPUs of another node cannot be used either.
func TestTheReasonOfTheScheduler(t *testing.T) {
	tainted := func(c *cluster) {
		c.node("b").Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	}
	for name, tc := range map[string]struct {
		message  string
		requests int64
		other    func(c *cluster)
		// target is the pod, or the cluster.
		target facts.Target
		want   []cause.Code
	}{
		"a node with free GPUs is short of CPU": {
			"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).", 1, tainted, ofTrain(),
			[]cause.Code{cause.Unschedulable, cause.TaintNotTolerated},
		},
		"the same in the cluster": {
			"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).", 1, tainted,
			facts.Target{},
			[]cause.Code{cause.Unschedulable},
		},
		"the same in a cluster with nodes without GPUs": {
			"0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s).", 1, func(c *cluster) {
				tainted(c)
				c.plain("plain")
			}, facts.Target{}, []cause.Code{cause.Unschedulable},
		},
		"pods hold the GPUs in a cluster with nodes without GPUs": {
			"0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.", 1,
			func(c *cluster) { c.plain("plain") },
			facts.Target{},
			[]cause.Code{cause.GPUsExhausted},
		},
		"a volume is in another zone": {
			"0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) were unschedulable.", 1,
			func(c *cluster) { c.node("b").Spec.Unschedulable = true }, ofTrain(),
			[]cause.Code{cause.Unschedulable, cause.NodeCordoned},
		},
		"a host port is taken, and other pods hold the GPUs of the other node": {
			"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't have free ports.", 1,
			func(c *cluster) { c.user("job", "b", map[string]int64{gpu: 8}) }, ofTrain(),
			[]cause.Code{cause.Unschedulable, cause.GPUsExhausted},
		},
		"pods exclude each other": {
			"0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules.", 1,
			func(c *cluster) { c.unready("b", cause.DriverHangs) }, ofTrain(),
			[]cause.Code{cause.Unschedulable, cause.NodesNotUsable},
		},
		"a claim cannot be allocated, and the control plane has a taint": {
			"0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) had untolerated taint(s).", 0, tainted, ofTrain(), []cause.Code{cause.Unschedulable},
		},
		"no node suits": {
			"0/2 nodes are available: 2 node(s) had untolerated taint(s).", 1, func(c *cluster) {
				tainted(c)
				c.node("a").Spec.Taints = c.node("b").Spec.Taints
			}, ofTrain(), []cause.Code{cause.TaintNotTolerated},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy("a", "b")
			p := c.user("train", "", map[string]int64{gpu: tc.requests})
			p.Status.Conditions[0].Message = tc.message
			if tc.requests == 0 {
				p.Spec.Containers[0].Resources.Limits = nil
				p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
			}
			tc.other(c)
			r := doctor.Diagnose(c.Facts, tc.target)
			if len(r.Findings) < len(tc.want) {
				t.Fatalf("want %v, got:\n%s", tc.want, text(r))
			}
			for i, code := range tc.want {
				if r.Findings[i].Code != code {
					t.Errorf("want %v, got:\n%s", tc.want, text(r))
				}
			}
			if f := r.Findings[0]; f.Code == cause.Unschedulable && f.Evidence != tc.message {
				t.Errorf("the evidence is %q", f.Evidence)
			}
		})
	}
}
