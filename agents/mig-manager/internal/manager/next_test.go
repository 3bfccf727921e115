package manager_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// change destroys a MIG device.
func change() apply.Plan {
	return apply.Plan{GPUs: []apply.Change{{Steps: []mig.Step{{Op: mig.DestroyCompute}}}}}
}

// asked returns a node whose label asks for a config that takes a change, with differences.
func asked(but ...func(*manager.Observation)) manager.Observation {
	o := manager.Observation{
		Node: manager.Node{Known: true, Config: "all-1g.10gb"}, Wanted: "all-1g.10gb", Plan: change(),
		Options: manager.Options{Policy: manager.WaitForPods, RebootPause: time.Hour, Poll: 2 * time.Second},
	}
	for _, b := range but {
		b(&o)
	}
	return o
}

func used(o *manager.Observation) {
	o.Users = []mig.Holder{holds("default", "train-0")}
	o.Users[0].GPU, o.Users[0].Device = 3, "3g.40gb"
}

func byProcess(o *manager.Observation) {
	unit := ofUnit()
	unit.GPU = 1
	o.Users = append(o.Users, unit)
}

func policy(p manager.Policy) func(*manager.Observation) {
	return func(o *manager.Observation) { o.Options.Policy = p }
}

func cordoned(o *manager.Observation) { o.Node.Unschedulable, o.Node.Cordoned = true, true }

func failed(left time.Duration) func(*manager.Observation) {
	return func(o *manager.Observation) {
		o.Attempt = manager.Attempt{Err: errors.New("create GPU instance 3g.40gb at 4:4: it broke"), Wait: left}
	}
}

func reset(o *manager.Observation) {
	o.Attempt = manager.Attempt{Err: errors.New("GPU 0: it takes effect after a reboot"), Reboot: true, Wait: time.Minute}
}

// nextCase is an observation with the next action.
type nextCase struct {
	o     manager.Observation
	kind  manager.Kind
	state manager.State
	// cause has parts of the cause.
	cause []string
	after time.Duration
}

func TestNext(t *testing.T) {
	testNext(t, map[string]nextCase{
		"before the API server has answered": {o: manager.Observation{}, kind: manager.Rest},
		"no label and no default":            {o: manager.Observation{Node: manager.Node{Known: true}}, kind: manager.Rest},
		"the layouts are as desired": {
			o: asked(func(o *manager.Observation) { o.Plan = apply.Plan{} }), kind: manager.Settle, state: manager.Success,
		},
		"the layouts are as desired, but for a GPU that does not answer": {
			o: asked(func(o *manager.Observation) {
				o.Plan, o.Lacking = apply.Plan{}, errors.New("GPU 3 cannot be read")
			}),
			kind: manager.Hold, state: manager.Failed, cause: []string{"GPU 3"}, after: time.Minute,
		},
		"a GPU does not answer, and the others are to change": {
			o: asked(func(o *manager.Observation) { o.Lacking = errors.New("GPU 3 cannot be read") }), kind: manager.Apply, state: manager.Pending,
		},
		"nothing in use goes": {o: asked(), kind: manager.Apply, state: manager.Pending},
		"the config has no such name": {
			o:    asked(func(o *manager.Observation) { o.Refused = errors.New(`"x": must be all-disabled or all-balanced`) }),
			kind: manager.Hold, state: manager.Failed, cause: []string{"all-balanced"}, after: time.Minute,
		},
		"the driver does not answer": {
			o:    asked(func(o *manager.Observation) { o.Driver = errors.New("no driver") }),
			kind: manager.Hold, state: manager.Pending, cause: []string{"no driver"}, after: 15 * time.Second,
		},
		"the driver went away after a success": {
			o: asked(func(o *manager.Observation) {
				o.Driver, o.Node.State = errors.New("no driver"), manager.Success
			}),
			kind: manager.Hold, after: 15 * time.Second,
		},
		"another config is asked for while the driver is away after a success": {
			o: asked(func(o *manager.Observation) {
				o.Driver, o.Node.State, o.Settled = errors.New("no driver"), manager.Success, "all-disabled"
			}),
			kind: manager.Hold, state: manager.Pending, cause: []string{"no driver"}, after: 15 * time.Second,
		},
		"a pod holds what goes": {
			o: asked(used), kind: manager.Hold, state: manager.Pending, after: 2 * time.Second,
			cause: []string{"pod default/train-0 with 3g.40gb of GPU 3"},
		},
		"it is not known who holds what goes": {
			o:    asked(func(o *manager.Observation) { o.Plan.Unknown = errors.New("no kubelet") }),
			kind: manager.Hold, state: manager.Pending, cause: []string{"no kubelet"}, after: 2 * time.Second,
		},
		"a pod makes the config fail": {
			o: asked(used, policy(manager.FailOnPods)), kind: manager.Hold, state: manager.Failed, after: 2 * time.Second,
			cause: []string{"train-0"},
		},
		"a pod is evicted from a cordoned node": {
			o: asked(used, policy(manager.EvictPods)), kind: manager.Cordon, state: manager.Pending, cause: []string{"train-0"}, after: 2 * time.Second,
		},
		"the node is cordoned, and the pod is evicted": {
			o: asked(used, policy(manager.EvictPods), cordoned), kind: manager.Evict, state: manager.Pending, after: 2 * time.Second,
			cause: []string{"evicting", "train-0"},
		},
		"a process of no pod cannot be evicted": {
			o: asked(used, byProcess, policy(manager.EvictPods)), kind: manager.Hold, state: manager.Pending, after: 2 * time.Second,
			cause: []string{"process 42 of nvsm.service with all of GPU 1"},
		},
		"a pod that comes back is not evicted": {
			o:    asked(used, policy(manager.EvictPods), func(o *manager.Observation) { o.Users[0].Stays = true }),
			kind: manager.Hold, state: manager.Pending, after: 2 * time.Second, cause: []string{"default/train-0", "DaemonSet"},
		},
		"a pod of the cluster itself is not evicted": {
			o:    asked(used, policy(manager.EvictPods), func(o *manager.Observation) { o.Users[0].Pod.Namespace = "kube-system" }),
			kind: manager.Hold, state: manager.Pending, after: 2 * time.Second, cause: []string{"kube-system/train-0", "by hand"},
		},
		"a cordon while it waits": {
			o:    asked(used, func(o *manager.Observation) { o.Options.Cordon = true }),
			kind: manager.Cordon, state: manager.Pending, after: 2 * time.Second,
		},
		"the cordon stays until the change is made":  {o: asked(cordoned), kind: manager.Apply, state: manager.Pending},
		"the cordon ends with the change":            {o: asked(cordoned, func(o *manager.Observation) { o.Plan = apply.Plan{} }), kind: manager.Uncordon, state: manager.Success},
		"the cordon ends when nothing is asked for":  {o: manager.Observation{Node: manager.Node{Known: true, Unschedulable: true, Cordoned: true}}, kind: manager.Uncordon},
		"the cordon ends when the change has failed": {o: asked(cordoned, failed(time.Minute)), kind: manager.Uncordon, state: manager.Failed, cause: []string{"it broke"}},
		"the cordon ends when pods are not evicted any more": {
			o: asked(used, cordoned), kind: manager.Uncordon, state: manager.Pending, cause: []string{"train-0"},
		},
		"the cordon ends when pods make the config fail": {
			o: asked(used, cordoned, policy(manager.FailOnPods)), kind: manager.Uncordon, state: manager.Failed, cause: []string{"train-0"},
		},
		"the cordon outlasts a restart of the kubelet": {
			o:    asked(cordoned, policy(manager.EvictPods), func(o *manager.Observation) { o.Plan.Unknown = errors.New("no kubelet") }),
			kind: manager.Hold, state: manager.Pending, cause: []string{"no kubelet"}, after: 2 * time.Second,
		},
		"the cordon stays until the host has rebooted": {
			o:    asked(cordoned, reset, func(o *manager.Observation) { o.Options.Reboot, o.Attempt.Rebooting = true, true }),
			kind: manager.Hold, state: manager.Rebooting, after: time.Minute,
		},
		"a cordon of somebody else stays":              {o: asked(func(o *manager.Observation) { o.Node.Unschedulable, o.Plan = true, apply.Plan{} }), kind: manager.Settle, state: manager.Success},
		"an attempt that failed waits":                 {o: asked(failed(time.Minute)), kind: manager.Hold, state: manager.Failed, cause: []string{"it broke"}, after: time.Minute},
		"it is failed until the next attempt succeeds": {o: asked(failed(0)), kind: manager.Apply, state: manager.Failed, cause: []string{"it broke"}},
		"the applier found a process": {
			o: asked(func(o *manager.Observation) {
				o.Attempt = manager.Attempt{Err: errors.New("busy"), Users: []mig.Holder{{Process: procowner.Process{PID: 7}, GPU: 1}}, Wait: time.Second}
			}),
			kind: manager.Hold, state: manager.Pending, cause: []string{"process 7 with all of GPU 1"}, after: time.Second,
		},
		"a reboot is needed, and not allowed": {
			o: asked(reset), kind: manager.Hold, state: manager.Failed, cause: []string{"reboot the node", "WITH_REBOOT"}, after: time.Minute,
		},
		"a reboot is needed and not allowed, and it is time to try again": {
			o:    asked(reset, func(o *manager.Observation) { o.Attempt.Wait = 0 }),
			kind: manager.Apply, state: manager.Failed, cause: []string{"reboot the node", "WITH_REBOOT"},
		},
		"the host refused to reboot": {
			o: asked(reset, func(o *manager.Observation) {
				o.Options.Reboot, o.Attempt.Refused = true, errors.New("no D-Bus")
			}),
			kind: manager.Hold, state: manager.Failed, cause: []string{"no D-Bus"}, after: time.Minute,
		},
		"the host refused to reboot, and it is time to try again": {
			o: asked(reset, func(o *manager.Observation) {
				o.Options.Reboot, o.Attempt.Refused, o.Attempt.Wait = true, errors.New("no D-Bus"), 0
			}),
			kind: manager.Reboot, state: manager.Failed, cause: []string{"no D-Bus"},
		},
		"a reboot is needed": {
			o: asked(reset, func(o *manager.Observation) { o.Options.Reboot = true }), kind: manager.Reboot, state: manager.Rebooting,
		},
		"a reboot did not help, and it is time to try again": {
			o: asked(reset, func(o *manager.Observation) {
				o.Options.Reboot, o.Attempt.Rebooted, o.Attempt.Wait = true, true, 0
			}),
			kind: manager.Apply, state: manager.Failed, cause: []string{"did not take effect after a reboot"},
		},
		"the host has not rebooted": {
			o: asked(reset, func(o *manager.Observation) { o.Options.Reboot, o.Attempt.Overdue = true, true }), kind: manager.Hold,
			state: manager.Failed, cause: []string{"did not reboot within 10 min", "tries the reboot again after 1 h"}, after: time.Minute,
		},
		"the host has not rebooted, and it is time to tell it again": {
			o: asked(reset, func(o *manager.Observation) {
				o.Options.Reboot, o.Attempt.Overdue, o.Attempt.Wait = true, true, 0
			}),
			kind: manager.Reboot, state: manager.Rebooting,
		},
		"the host is not told to reboot while a pod uses what changes": {
			o: asked(reset, used, func(o *manager.Observation) {
				o.Options.Reboot, o.Attempt.Overdue, o.Attempt.Wait = true, true, 0
			}),
			kind: manager.Hold, state: manager.Pending, cause: []string{"default/train-0"}, after: 2 * time.Second,
		},
		"the host is not told to reboot by an agent that may now, while a pod uses what changes": {
			o:    asked(reset, used, func(o *manager.Observation) { o.Options.Reboot = true }),
			kind: manager.Hold, state: manager.Pending, cause: []string{"default/train-0"}, after: 2 * time.Second,
		},
		"the host is not told to reboot while nobody knows who uses what changes": {
			o: asked(reset, func(o *manager.Observation) {
				o.Options.Reboot, o.Plan.Unknown = true, errors.New("the kubelet does not answer")
			}),
			kind: manager.Hold, state: manager.Pending, cause: []string{"the kubelet"}, after: 2 * time.Second,
		},
		"the host has not rebooted, and the agent may not tell it any more": {
			o: asked(reset, func(o *manager.Observation) { o.Attempt.Overdue = true }), kind: manager.Hold,
			state: manager.Failed, cause: []string{"WITH_REBOOT", "tries again after 1 h"}, after: time.Minute,
		},
		"the cordon ends if the host has not rebooted": {
			o:    asked(cordoned, reset, func(o *manager.Observation) { o.Options.Reboot, o.Attempt.Overdue = true, true }),
			kind: manager.Uncordon, state: manager.Failed, cause: []string{"did not reboot"},
		},
		"a reboot is under way": {
			o: asked(reset, func(o *manager.Observation) { o.Options.Reboot, o.Attempt.Rebooting = true, true }), kind: manager.Hold,
			state: manager.Rebooting, after: time.Minute,
		},
		"a reboot did not help": {
			o: asked(reset, func(o *manager.Observation) { o.Options.Reboot, o.Attempt.Rebooted = true, true }), kind: manager.Hold,
			state: manager.Failed, cause: []string{"did not take effect after a reboot"}, after: time.Minute,
		},
	})
}

func testNext(t *testing.T, cases map[string]nextCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := manager.Next(tc.o)
			if got.Kind != tc.kind || got.State != tc.state || got.After != tc.after {
				t.Errorf("Next() = %+v, want %s, state %q, after %s", got, tc.kind, tc.state, tc.after)
			}
			for _, part := range tc.cause {
				if !strings.Contains(got.Cause, part) {
					t.Errorf("cause %q, want %q in it", got.Cause, part)
				}
			}
			if tc.cause == nil && got.State == manager.Failed && got.Cause == "" {
				t.Error("it failed without a cause")
			}
		})
	}
}

func TestManyUsers(t *testing.T) {
	o := asked()
	for i := range 20 {
		o.Users = append(o.Users, holds("n", fmt.Sprintf("p%d", i)))
	}
	if got := manager.Next(o).Cause; !strings.Contains(got, "and 12 more") || len(got) > 1000 {
		t.Errorf("cause %q", got)
	}
}
