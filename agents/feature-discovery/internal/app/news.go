package app

import (
	"sync"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/kube"
)

// news hands the desired state to those who publish it, and reports changes of
// the condition as Events of the Node.
type news struct {
	out *outputs
	api *cluster.API

	mu   sync.Mutex
	last object.Condition
}

func (n *news) want(w publish.Desired) {
	n.out.want(w)
	if w.Ready == nil {
		return
	}
	n.mu.Lock()
	was := n.last
	n.last = *w.Ready
	n.mu.Unlock()
	// The first state is no change: the condition shows it.
	if was.Reason != "" && was.Reason != w.Ready.Reason {
		n.api.Event(kube.Event{Warning: w.Ready.Status != "True", Reason: w.Ready.Reason, Message: w.Ready.Message})
	}
}

// follower makes discovery follow the config, and reports a rejected config as an
// Event of the Node.
func (s settings) follower(d *discovery.Discovery) configfile.Follower[config.Config] {
	return configfile.Follower[config.Config]{
		Configure: d.Configure,
		Reject: func(err error) {
			d.Reject(err)
			s.api.Event(kube.Event{Warning: true, Reason: "ConfigRefused", Message: err.Error()})
		},
	}
}
