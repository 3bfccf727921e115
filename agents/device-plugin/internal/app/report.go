package app

import (
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/pkg/kube"
)

// reporter tells of reports as Events of the Node.
type reporter struct{ events *kube.Events }

var _ plugin.Reporter = reporter{}

// Report queues an Event.
func (r reporter) Report(p plugin.Report) {
	r.events.Tell(kube.Event{Warning: !p.Normal(), Reason: string(p.Kind), Message: p.String()})
}
