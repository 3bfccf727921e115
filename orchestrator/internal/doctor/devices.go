package doctor

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/pkg/text"
)

// gateTaint is the startup taint, which feature discovery removes when the GPUs of a node can be used.
const gateTaint = "outrigger.dev/gpu-not-ready"

// untolerated returns a taint of a node that keeps pods with these tolerations off, or nil. A cordon is not one.
func untolerated(n *corev1.Node, tolerations []corev1.Toleration) *corev1.Taint {
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable
	}, true)
	if !found {
		return nil
	}
	return &taint
}

// offersAll reports whether a node has the resources in these numbers, used or not.
func offersAll(n *corev1.Node, requests map[string]int64) bool {
	return enough(n.Status.Capacity, requests)
}

// allocatable reports whether the healthy devices of a node suffice.
func allocatable(n *corev1.Node, requests map[string]int64) bool {
	return enough(n.Status.Allocatable, requests)
}

func enough(list corev1.ResourceList, requests map[string]int64) bool {
	for name, count := range requests {
		if have := list[corev1.ResourceName(name)]; have.Value() < count {
			return false
		}
	}
	return true
}

// full reports whether the scheduler finds more nodes without enough free devices than there are nodes that never have
// enough: pods hold the devices of the others.
func (s *search) full(requests map[string]int64) bool {
	required, small := nodeaffinity.GetRequiredNodeAffinity(s.p), 0
	for _, n := range s.d.Nodes {
		if allocatable(n, requests) || n.Spec.Unschedulable || untolerated(n, s.p.Spec.Tolerations) != nil {
			continue
		}
		if matches, err := required.Match(n); err == nil && matches {
			small++
		}
	}
	for name := range requests {
		for _, end := range []string{", ", ". "} { // "0/9 nodes are available: 3 Insufficient cpu, 6 Insufficient nvidia.com/gpu."
			before, _, found := strings.Cut(s.message+" ", " Insufficient "+name+end)
			if count, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:]); found && err == nil && count > small {
				return true
			}
		}
	}
	return false
}

// held returns the pods that hold the devices of a node that a pod requests, or nil if enough devices are free.
func (s *search) held(n *corev1.Node, requests map[string]int64) []Holder {
	for _, name := range sortedKeys(requests) {
		free := n.Status.Allocatable[corev1.ResourceName(name)]
		lacking := requests[name] - free.Value()
		var all []Holder
		for _, p := range s.d.pods[n.Name] {
			count := facts.Requests(p)[name]
			if count == 0 || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				continue
			}
			lacking += count
			all = append(all, Holder{Node: n.Name, Pods: []string{p.Namespace + "/" + p.Name}, Resource: name, Count: count, Since: new(heldSince(p))})
		}
		if lacking > 0 {
			for i := range all {
				all[i].enough = all[i].Count >= lacking
			}
			return all
		}
	}
	return nil
}

// heldBy returns the holders of the devices of a node for people.
func (d *diagnosis) heldBy(node string, all []Holder) string {
	var names []string
	for _, h := range all {
		names = append(names, fmt.Sprintf("%s has %d since %s", h.who(), h.Count, age(d.Taken, *h.Since)))
	}
	return node + ": " + health.Abbreviate(names, len(names))
}

func age(now, since time.Time) string { return duration.HumanDuration(now.Sub(since)) }

// firstCause returns the first cause of a node in a few words.
func (d *diagnosis) firstCause(n *corev1.Node) string {
	if all := d.ofNode(n); len(all) > 0 {
		return n.Name + " has " + string(all[0].Code)
	}
	return ""
}

// resources returns the resources of NVIDIA that nodes have, with the number of devices in the cluster.
func (d *diagnosis) resources() map[string]int64 {
	all := map[string]int64{}
	for _, m := range d.compact {
		for name, count := range m.Capacity {
			all[name] += count
		}
	}
	return all
}

func (d *diagnosis) has(resource string) bool { return d.resources()[resource] > 0 }

// offers returns the resources of the cluster for people.
func (d *diagnosis) offers() string {
	all := d.resources()
	var names []string
	for _, name := range sortedKeys(all) {
		if all[name] > 0 {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "no resource nvidia.com/*")
}

// couldHave names nodes whose GPUs have a label of a MIG profile, or that can have MIG devices.
func (d *diagnosis) couldHave(profile string) string {
	var capable []string
	for _, n := range d.Nodes {
		if n.Labels["nvidia.com/mig.capable"] == "true" {
			capable = append(capable, n.Name)
		}
	}
	if len(capable) == 0 {
		return "; no GPU of the cluster supports MIG"
	}
	return fmt.Sprintf("; GPUs that support MIG, which may have the profile %s, are on %s", profile, health.Abbreviate(capable, len(capable)))
}

// meant returns the resource of the cluster that is most like the requested one, as the end of a sentence.
func (d *diagnosis) meant(resource string) string {
	var names []string
	for name, count := range d.resources() {
		if count > 0 {
			names = append(names, name)
		}
	}
	if best := text.Nearest(resource, names); best != "" {
		return ": did you mean " + best + "?"
	}
	return ""
}
