package manager

import (
	"slices"
	"time"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// pauseLimit is the longest wait for the pods of paused DaemonSets, as in NVIDIA's MIG manager.
const pauseLimit = 5 * time.Minute

// waitsForDaemonSets reports whether all users are pods that come back after an eviction, and that a pause may remove.
// While other pods use the GPUs too, a pause would stop the DaemonSets for as long as these pods run.
func (a Action) waitsForDaemonSets() bool {
	return len(a.Users) > 0 && len(a.Stuck) == 0 && !slices.ContainsFunc(a.Users, leaves)
}

// keepsPause reports whether the pods of DaemonSets could prevent the change.
func (o Observation) keepsPause(a Action) bool {
	switch {
	case a.Kind == Apply, a.Kind == Reboot, a.State == Rebooting:
		return true
	case o.PausedFor >= pauseLimit:
		return false
	case a.Kind == Hold && a.State == Pending && o.Plan.Unknown != nil:
		return true
	}
	return a.waitsForDaemonSets()
}

// stuck returns the users that a pause has not removed: static pods, and pods of DaemonSets that select no paused label.
func (o Observation) stuck(users []mig.Holder) []procowner.Pod {
	var pods []procowner.Pod
	for _, u := range users {
		if u.Stays && (o.PausedFor >= pauseLimit || slices.Contains(o.Stuck, u.Pod)) {
			pods = append(pods, u.Pod)
		}
	}
	return pods
}

// observePause returns how long the DaemonSets have been paused, as far as this process knows.
func (m *Manager) observePause() time.Duration {
	switch {
	case !m.node.Paused:
		m.pausedSince = time.Time{}
		return 0
	case m.pausedSince.IsZero():
		m.pausedSince = m.now()
	}
	return m.now().Sub(m.pausedSince)
}

// stays and leaves report whether a user is a pod that comes back after an eviction.
func stays(h mig.Holder) bool  { return h.Stays }
func leaves(h mig.Holder) bool { return !h.Stays }

// evictable reports whether evictions, and then a pause of DaemonSets, remove all users.
func (o Observation) evictable(users []mig.Holder) bool {
	pausable := (o.Node.Pausable || o.Node.Paused) && len(o.stuck(users)) == 0
	if slices.ContainsFunc(users, stays) && !pausable {
		return false
	}
	evicted := slices.DeleteFunc(slices.Clone(users), stays)
	return len(evicted) > 0 && !slices.ContainsFunc(evicted, func(h mig.Holder) bool { return h.Pod.Name == "" || isSystemPod(h) })
}
