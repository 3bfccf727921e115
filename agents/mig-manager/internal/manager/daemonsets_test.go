package manager_test

import (
	"errors"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/procowner"
)

func stays(o *manager.Observation)    { o.Users[0].Stays = true }
func byPod(o *manager.Observation)    { o.Users = append(o.Users, holds("default", "train-1")) }
func pausable(o *manager.Observation) { o.Node.Pausable = true }
func paused(o *manager.Observation)   { o.Node.Paused = true }

func pausedFor(d time.Duration) func(*manager.Observation) {
	return func(o *manager.Observation) { o.PausedFor = d }
}

func stuck(o *manager.Observation) {
	o.Stuck = []procowner.Pod{{Namespace: "default", Name: "train-0"}}
}

// TestNextWithDaemonSets: train-0 is a pod that comes back after an eviction.
func TestNextWithDaemonSets(t *testing.T) {
	limited := []string{"train-0", "a pause of 5 min", "nvidia.com/gpu.deploy.client=true, or delete them"}
	testNext(t, map[string]nextCase{
		"DaemonSets that hold the driver are paused": {
			o: asked(used, stays, pausable), kind: manager.Pause, state: manager.Pending, cause: []string{"train-0"},
		},
		"DaemonSets are not paused while other pods run": {
			o: asked(used, stays, pausable, byProcess), kind: manager.Hold, state: manager.Pending, cause: []string{"train-0"}, after: 2 * time.Second,
		},
		"DaemonSets are paused although pods make the config fail": {
			o: asked(used, stays, pausable, policy(manager.FailOnPods)), kind: manager.Pause, state: manager.Failed, cause: []string{"train-0"},
		},
		"nothing can be paused any more": {
			o: asked(used, stays, paused), kind: manager.Hold, state: manager.Pending, cause: []string{"train-0"}, after: 2 * time.Second,
		},
		"a pod is evicted before DaemonSets are paused": {
			o: asked(used, stays, pausable, byPod, cordoned, policy(manager.EvictPods)), kind: manager.Evict, state: manager.Pending,
			cause: []string{"evicting", "train-0", "train-1"}, after: 2 * time.Second,
		},
		"the node is cordoned before that": {
			o: asked(used, stays, pausable, byPod, policy(manager.EvictPods)), kind: manager.Cordon, state: manager.Pending, after: 2 * time.Second,
		},
		"then DaemonSets are paused": {
			o: asked(used, stays, pausable, cordoned, policy(manager.EvictPods)), kind: manager.Pause, state: manager.Pending,
		},
		"the cordon stays while they leave": {
			o: asked(used, stays, paused, cordoned, policy(manager.EvictPods)), kind: manager.Hold, state: manager.Pending, after: 2 * time.Second,
		},
		"a pod is not evicted if DaemonSets cannot be paused": {
			o: asked(used, stays, byPod, policy(manager.EvictPods)), kind: manager.Hold, state: manager.Pending, after: 2 * time.Second,
		},
		"a pod is not evicted if a process remains": {
			o: asked(used, stays, pausable, byPod, byProcess, policy(manager.EvictPods)), kind: manager.Hold, state: manager.Pending, after: 2 * time.Second,
		},
		"the pause stays until the change is made": {o: asked(paused), kind: manager.Apply, state: manager.Pending},
		"the pause ends with the change": {
			o: asked(paused, cordoned, func(o *manager.Observation) { o.Plan = apply.Plan{} }), kind: manager.Resume, state: manager.Success,
		},
		"the pause ends when nothing is asked for":  {o: manager.Observation{Node: manager.Node{Known: true, Paused: true}}, kind: manager.Resume},
		"the pause ends when the change has failed": {o: asked(paused, failed(time.Minute)), kind: manager.Resume, state: manager.Failed, cause: []string{"it broke"}},
		"the pause ends while other pods run": {
			o: asked(used, paused), kind: manager.Resume, state: manager.Pending, cause: []string{"train-0"},
		},
		"the pause ends if its pods stay": {
			o: asked(used, stays, paused, pausedFor(5*time.Minute)), kind: manager.Resume, state: manager.Pending, cause: limited,
		},
		"the pause ends if its pods stay, and pods make the config fail": {
			o:    asked(used, stays, paused, pausedFor(5*time.Minute), policy(manager.FailOnPods)),
			kind: manager.Resume, state: manager.Failed, cause: limited,
		},
		"the pause stays for a while": {
			o: asked(used, stays, paused, pausedFor(5*time.Minute-1)), kind: manager.Hold, state: manager.Pending, after: 2 * time.Second,
		},
		"the pause ends if the kubelet does not answer": {
			o:    asked(paused, pausedFor(5*time.Minute), func(o *manager.Observation) { o.Plan.Unknown = errors.New("no kubelet") }),
			kind: manager.Resume, state: manager.Pending, cause: []string{"no kubelet"},
		},
		"an attempt is made in the pause": {o: asked(paused, pausedFor(time.Hour)), kind: manager.Apply, state: manager.Pending},
		"there is no second pause for pods that stay": {
			o: asked(used, stays, pausable, stuck), kind: manager.Hold, state: manager.Pending, cause: limited, after: 2 * time.Second,
		},
		"nor while other DaemonSets use GPUs too": {
			o:    asked(used, byPod, func(o *manager.Observation) { o.Users[0].Stays, o.Users[1].Stays = true, true }, pausable, stuck),
			kind: manager.Hold, state: manager.Pending, cause: limited, after: 2 * time.Second,
		},
		"there is a pause for other pods": {
			o:    asked(used, stays, pausable, stuck, func(o *manager.Observation) { o.Users[0].Pod.Name = "train-2" }),
			kind: manager.Pause, state: manager.Pending,
		},
		"pods are not evicted for pods that stay": {
			o:    asked(used, stays, byPod, pausable, stuck, policy(manager.EvictPods)),
			kind: manager.Hold, state: manager.Pending, cause: limited, after: 2 * time.Second,
		},
		"the cordon ends if pods stay": {
			o:    asked(used, stays, pausable, stuck, cordoned, policy(manager.EvictPods)),
			kind: manager.Uncordon, state: manager.Pending, cause: limited,
		},
		"a cordon while it waits stays although pods stay": {
			o:    asked(used, stays, pausable, stuck, cordoned, func(o *manager.Observation) { o.Options.Cordon = true }),
			kind: manager.Hold, state: manager.Pending, cause: limited, after: 2 * time.Second,
		},
		"the pause stays until the host has rebooted": {
			o:    asked(paused, reset, func(o *manager.Observation) { o.Options.Reboot, o.Attempt.Rebooting = true, true }),
			kind: manager.Hold, state: manager.Rebooting, after: time.Minute,
		},
	})
}
