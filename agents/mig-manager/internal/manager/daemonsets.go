package manager

import (
	"slices"

	"outrigger.dev/pkg/gpu/mig"
)

// waitsForDaemonSets reports whether all users are pods that come back after an eviction. Then only a pause can remove
// them. While other pods use the GPUs too, a pause would stop the DaemonSets for as long as these pods run.
func (a Action) waitsForDaemonSets() bool {
	return len(a.Users) > 0 && !slices.ContainsFunc(a.Users, leaves)
}

// keepsPause reports whether the pods of DaemonSets could prevent the change.
func (o Observation) keepsPause(a Action) bool {
	switch a.Kind {
	case Apply, Reboot:
		return true
	case Hold:
		return a.State == Rebooting || a.waitsForDaemonSets() || a.State == Pending && o.Plan.Unknown != nil
	default:
		return a.waitsForDaemonSets()
	}
}

// stays and leaves report whether a user is a pod that comes back after an eviction.
func stays(h mig.Holder) bool  { return h.Stays }
func leaves(h mig.Holder) bool { return !h.Stays }

// evictable reports whether evictions, and then a pause of DaemonSets, remove all users.
func (o Observation) evictable(users []mig.Holder) bool {
	if slices.ContainsFunc(users, stays) && !o.Node.Pausable && !o.Node.Paused {
		return false
	}
	evicted := slices.DeleteFunc(slices.Clone(users), stays)
	return len(evicted) > 0 && !slices.ContainsFunc(evicted, func(h mig.Holder) bool { return h.Pod.Name == "" || isSystemPod(h) })
}
