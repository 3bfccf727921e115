package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
)

// BoardName is the name of a ConfigMap with the reasons why nodes wait, which package grants writes.
// For each DaemonSet of the namespace, it has a Waiting under the key WaitingPrefix and the name of
// the DaemonSet.
const (
	BoardName     = "driver-upgrades"
	WaitingPrefix = "waiting."
)

// Waiting has the reasons why nodes of a DaemonSet have no grant.
type Waiting struct {
	// Halted lists the failed nodes, by driver, if they halt the upgrades of other nodes.
	Halted map[string][]string `json:"halted,omitempty"`
	// For is the reason why other nodes wait.
	For string `json:"for,omitempty"`
}

// board has the data of the ConfigMap BoardName.
type board struct {
	Data map[string]string `json:"data"`
}

// follow updates u.waiting until ctx ends.
func (u *Upgrade) follow(ctx context.Context) {
	kube.Watch(ctx, u.cfg.Client, kube.Query{Object: u.cfg.Board}, func(all []board) {
		var w Waiting
		for _, b := range all {
			// Ignore a text that cannot be read. The node waits until it has a grant.
			_ = json.Unmarshal([]byte(b.Data[WaitingPrefix+path.Base(u.cfg.DaemonSet)]), &w)
		}
		u.waiting.Store(&w)
		u.Changed()
	})
}

// observe reads the Node, the loaded driver and the upgrade policy.
func (u *Upgrade) observe(ctx context.Context) (nodestate.Node, Observation, Policy, error) {
	var node nodestate.Node
	desired, err := u.cfg.Desired(u.journal.State)
	p, o := desired.Policy, Observation{Target: desired.Driver}
	if err != nil {
		return node, o, p, fmt.Errorf("find the desired driver: %w", err)
	}
	if node, err = u.node.Read(ctx); err != nil {
		return node, o, p, err
	}
	o.Node = nodeFields(node)
	o.Node.Pausable, o.Node.Paused = u.node.Pausable(node), u.node.Paused(node)
	if o.Loaded, err = u.cfg.Driver.Loaded(ctx); err != nil {
		return node, o, p, fmt.Errorf("find the loaded driver: %w", err)
	}
	if w := u.waiting.Load(); w != nil {
		o.Waiting = *w
	}
	return node, o, p, nil
}
