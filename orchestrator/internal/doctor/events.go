package doctor

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// ofEvents returns the findings of a node's Events, the newest of each reason and device. An Event counts only while the
// state that it reports can last: an Event has no end.
func (d *diagnosis) ofEvents(n *corev1.Node, unusable bool) (all []Finding) {
	list := d.events[eventKey("Node", "", n.Name)]
	now := d.explanationOf(n)
	reported := map[string]bool{}
	for i, e := range slices.Backward(list) {
		lasts := false
		for _, device := range devicesOf(e.Message) {
			key := e.Reason + " " + device
			lasts = lasts || !reported[key] && !ended(list[i+1:], e.Reason, device) && !now.settles(e, device)
			reported[key] = true
		}
		if !lasts || !d.canLast(n, e, unusable) {
			continue
		}
		for _, code := range codesOf(e) {
			if d.refuted(n, code.Code) {
				continue
			}
			f := ofNode(code.Code, n.Name, code.Text, "Event "+e.Reason+" of the Node").withFix(code.Fix).since(eventTime(e))
			f.derived = code.Code == cause.DeviceDriver || code.Code == cause.DeviceClaimed // the driver's own cause says more
			all = collect(all, f)
		}
	}
	return all
}

// deviceName matches the names of devices in Events: a UUID, or the PCI bus ID of a virtual GPU.
var deviceName = regexp.MustCompile(`\b(?:GPU|MIG)-[0-9A-Za-z-]+|\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]`)

// devicesOf returns the devices of an Event, or "" for the node. The reason, which follows them, can name other devices.
func devicesOf(message string) []string {
	for part := range strings.SplitSeq(message, ": ") {
		if found := deviceName.FindAllString(part, -1); len(found) > 0 {
			return found
		}
	}
	return []string{""}
}

// reportDelay is how long the condition GPUReady may take to follow an Event.
const reportDelay = time.Minute

// canLast reports whether the state of the node, and the age of the agent that sent an Event, fit the Event.
func (d *diagnosis) canLast(n *corev1.Node, e *corev1.Event, unusable bool) bool {
	switch e.Reason {
	case string(cause.DeviceUnhealthy):
		offered, capacity := d.compact[n.Name].GPUs()
		return offered < capacity
	case string(cause.GPUsNotOffered), "GPUDriverBuildFailed":
		// If the condition was True after the Event, the state has ended.
		m := d.compact[n.Name]
		return unusable && !(m.GPUReady == "False" && eventTime(e).Add(reportDelay).Before(m.Since))
	case string(cause.ConfigRefused):
		// A process that has started since then would have exited because of the config.
		return !d.whole[n.Name] || !slices.ContainsFunc(d.pods[n.Name], func(p *corev1.Pod) bool {
			return facts.Agent(p.Labels) == e.Source.Component && slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
				return s.Name == e.Source.Component && s.State.Running != nil && s.State.Running.StartedAt.After(eventTime(e))
			})
		})
	}
	return true
}

// collect adds a finding, or adds its evidence to a finding with the same code and source: one finding names all devices.
func collect(all []Finding, f Finding) []Finding {
	for i := range all {
		if o := &all[i]; o.Code == f.Code && o.Source == f.Source {
			o.Evidence = health.SingleLine(o.Evidence+"; "+f.Evidence, health.MaxMessage)
			if f.Since != nil && (o.Since == nil || f.Since.Before(*o.Since)) {
				o.Since = f.Since
			}
			return all
		}
	}
	return append(all, f)
}

// refuted reports whether the condition GPUReady says that the link of an Event's cause holds: it names the first link from
// the driver on that does not hold. If that is the plugin, its Events say why, also about links before it.
func (d *diagnosis) refuted(n *corev1.Node, code cause.Code) bool {
	m := d.compact[n.Name]
	first := cause.Code(m.Reason)
	if m.GPUReady != "False" || first.Row().Section != "node" || linkOf(first) == linkDriver || linkOf(first) == linkPlugin {
		return false
	}
	return rank(linkOf(code)) < rank(linkOf(first))
}

// codesOf returns the causes of an Event of an agent: the causes in its message, or its reason.
func codesOf(e *corev1.Event) []cause.Cause {
	switch reason := cause.Code(e.Reason); reason {
	case cause.DeviceUnhealthy, cause.DeviceNotOffered, cause.GPUsNotOffered:
		if found := cause.Parse(e.Message, "device"); len(found) > 0 {
			return found[:1]
		}
		return []cause.Cause{{Code: reason, Text: e.Message}}
	case "GPUDriverBuildFailed":
		return cause.Parse(e.Message, "driver")
	case cause.RDMAUnavailable, cause.GDSUnavailable, cause.GDRCopyUnavailable:
		return nil // the condition GPUOptionalModulesLoaded has it
	default:
		switch reason.Row().Section {
		case "license", "device":
			return []cause.Cause{{Code: reason, Text: e.Message}}
		}
		return nil // conditions, labels and annotations have the others, and change when the cause ends
	}
}

// ended reports whether a later Event ends the state of a device that an Event with a reason reports.
func ended(later []*corev1.Event, reason, device string) bool {
	ends := map[string]string{
		string(cause.DeviceUnhealthy): "DeviceHealthy", string(cause.VGPULicenseLost): "VGPULicensed", string(cause.VGPULicenseMissing): "VGPULicensed",
	}[reason]
	return ends != "" && slices.ContainsFunc(later, func(e *corev1.Event) bool {
		return e.Reason == ends && slices.Contains(devicesOf(e.Message), device)
	})
}

// ofAnswers returns the findings of the answers of agents on a node.
func (d *diagnosis) ofAnswers(n *corev1.Node) (all []Finding) {
	for _, a := range d.answers[n.Name] {
		if slices.Contains(a.Command, "plan") && d.answersReady(a) {
			continue // the driver works: the plan is about the next one
		}
		source := fmt.Sprintf("%s in the pod %s/%s", strings.Join(a.Command, " "), a.Namespace, a.Pod)
		for _, c := range causesOf(a) {
			all = collect(all, ofNode(c.Code, n.Name, strings.TrimPrefix(c.Subject+": "+c.Text, ": "), source))
		}
	}
	return all
}

// unreported returns the findings of answers without a fault of a device that an Event names: explain, which is another
// process than the plugin, may know only that NVML fails.
func unreported(answers, reported []Finding) []Finding {
	return slices.DeleteFunc(answers, func(f Finding) bool {
		return f.Code == cause.DeviceFault && slices.ContainsFunc(reported, func(o Finding) bool {
			return o.Code.Row().Section == "device" && !slices.ContainsFunc(devicesOf(f.Evidence), func(device string) bool { return !strings.Contains(o.Evidence, device) })
		})
	})
}

// answersReady reports whether the agent of an answer has also answered that it is ready.
func (d *diagnosis) answersReady(of facts.Answer) bool {
	return slices.ContainsFunc(d.answers[of.Node], func(a facts.Answer) bool {
		return a.Pod == of.Pod && slices.Contains(a.Command, "readyz") && a.Error == ""
	})
}

// maxCauses is the maximum number of causes of one answer.
const maxCauses = 32

// causesOf returns the causes in an answer. An answer can be from a container that is not the agent, so only codes of the parts of the
// table that the agent knows count, and their fixes are in the table.
func causesOf(a facts.Answer) (all []cause.Cause) {
	sections := []string{"driver", "upgrade"}
	switch {
	case slices.Contains(a.Command, "readyz"):
		_, text, _ := strings.Cut(a.Error, readyFails)
		all = cause.Parse(text, sections...)
	case slices.Contains(a.Command, "plan"):
		all = causesOfPlan(a.Output)
	case slices.Contains(a.Command, "explain"):
		if x := parseExplanation(a.Output); x != nil {
			all, sections = x.causes(), []string{"device"}
		}
	}
	all = slices.DeleteFunc(all, func(c cause.Cause) bool { return !slices.Contains(sections, c.Code.Row().Section) })
	return all[:min(len(all), maxCauses)]
}

// causesOfPlan reads the output of driver-loader plan --output=json.
func causesOfPlan(output string) (all []cause.Cause) {
	var plan struct {
		Checks []struct {
			Cause *cause.Cause `json:"cause"`
		} `json:"checks"`
		Next struct {
			Causes []cause.Cause `json:"causes"`
		} `json:"next"`
	}
	if json.Unmarshal([]byte(output), &plan) != nil {
		return nil // an agent of another version
	}
	for _, c := range plan.Checks {
		if c.Cause != nil {
			all = append(all, *c.Cause)
		}
	}
	for _, c := range plan.Next.Causes {
		if !slices.ContainsFunc(all, func(o cause.Cause) bool { return o.Code == c.Code && o.Subject == c.Subject }) {
			all = append(all, c)
		}
	}
	return all
}

// notes returns the facts that explain no failure: values without effect.
func (d *diagnosis) notes() (all []string) {
	for _, p := range d.policies {
		for _, c := range p.Status.Conditions {
			if c.Type == model.ConditionValuesIgnored && c.Status == "True" {
				all = append(all, "ClusterPolicy "+p.Name+": "+c.Message)
			}
		}
	}
	return all
}
