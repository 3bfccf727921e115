package app

import (
	"errors"
	"log/slog"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
)

// openAPI connects to the API server if a flag needs it: for the label that selects the
// config file, for Events, or to see that the DaemonSet is deleted. It returns nil if no flag
// needs it, and outside of a cluster.
func (s *settings) openAPI(log *slog.Logger) (*cluster.API, error) {
	if !s.cluster.Events && s.gpus.File.Dir == "" && s.cluster.DaemonSet == "" {
		return nil, nil //nolint:nilnil // a nil API does nothing
	}
	api, err := s.cluster.Open(name, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		log.Info("not in a cluster, ignoring the node's label and sending no events", "err", err)
		return nil, nil //nolint:nilnil // a nil API does nothing
	}
	return api, err
}

// reporter sends the reports of an inventory as Events of the Node.
type reporter struct{ api *cluster.API }

var _ inventory.Reporter = reporter{}

// Report queues an Event.
func (r reporter) Report(p inventory.Report) {
	r.api.Event(kube.Event{Warning: !p.Normal(), Reason: string(p.Kind), Message: p.String()})
}
