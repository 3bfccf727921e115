package podload

import (
	"cmp"
	"maps"
	"slices"

	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
)

// use is a device that a container of a pod uses.
type use struct{ owner, device string }

// uses returns the loads of the pods that use devices, ordered. A pod has one load on each of its
// devices while a container that has the device runs, whatever the number of replicas. Pods without
// a utilization get the default; without a default, pods without annotations have no load. The
// parameter pids has a process of each container, by the container's ID.
func uses(pods []pod, users podresources.Map, standard *scenario.Range, pids map[string]int) []load.Load {
	byName := make(map[string]pod, len(pods))
	for _, p := range pods {
		byName[p.name()] = p
	}
	loads := map[use]load.Load{}
	for device, list := range users {
		for _, u := range list {
			p, ok := byName[u.Namespace+"/"+u.Pod]
			id, running := p.running(u.Container)
			if !ok || !running || p.ended() {
				continue
			}
			w := parse(p.Metadata.Annotations)
			if !w.utilization && standard != nil {
				w.Utilization = *standard
			} else if !w.any {
				continue
			}
			key := use{p.name(), string(device)}
			l, known := loads[key]
			if !known {
				l = load.Load{Owner: key.owner, Seed: p.Metadata.UID, Device: key.device, Use: w.Use}
			}
			if pid := pids[id]; pid != 0 && !slices.Contains(l.PIDs, pid) {
				l.PIDs = append(l.PIDs, pid)
				slices.Sort(l.PIDs)
			}
			loads[key] = l
		}
	}
	return slices.SortedFunc(maps.Values(loads), func(a, b load.Load) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Owner, b.Owner))
	})
}

// containers returns the IDs of the running containers of pods that have loads.
func containers(pods []pod, loads []load.Load) []string {
	var ids []string
	for _, p := range pods {
		if !slices.ContainsFunc(loads, func(l load.Load) bool { return l.Owner == p.name() }) {
			continue
		}
		for _, c := range p.Status.Containers {
			if id, ok := p.running(c.Name); ok && id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
