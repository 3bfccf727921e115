package discovery

import (
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/kube"
)

// ready returns the condition, nil while it is not known, or nobody wants it.
func (d *Discovery) ready() *kube.Condition {
	if len(d.cfg.Chain) == 0 || !d.looked || d.known == nil {
		return nil
	}
	c := ready.Derive(d.cfg.Chain, ready.Observed{Node: d.node, Err: d.trouble, Hang: d.hang, Facts: d.known})
	return &c
}
