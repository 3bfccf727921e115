package app

import (
	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/kube"
)

// follower passes each new config to discovery, and reports a rejected config as an Event of
// the Node.
func (s *settings) follower(d *discovery.Discovery) configfile.Follower[config.Config] {
	return configfile.Follower[config.Config]{
		Configure: d.Configure,
		Reject: func(err error) {
			d.Reject(err)
			s.api.Event(kube.Event{Warning: true, Reason: string(cause.ConfigRefused), Message: err.Error()})
		},
	}
}
