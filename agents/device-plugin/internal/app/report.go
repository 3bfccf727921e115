package app

import (
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/kube"
)

// reporter tells of reports as Events of the Node.
type reporter struct{ events *kube.Events }

var _ inventory.Reporter = reporter{}

// Report queues an Event.
func (r reporter) Report(p inventory.Report) {
	r.events.Tell(kube.Event{Warning: !p.Normal(), Reason: string(p.Kind), Message: p.String()})
}
