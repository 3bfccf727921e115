package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/nodestate"
)

// endLimit bounds the requests at the end.
const endLimit = 10 * time.Second

// uncordonAtEnd uncordons the node if this agent has cordoned it: nobody may come to do it later. An
// agent that starts again cordons it again. Until a reboot it stays cordoned: pods that come now
// would be in the way after it.
func (m *Manager) uncordonAtEnd(ctx context.Context) {
	if !m.currentNode().Cordoned && !m.cordoned || m.attempt.Rebooting {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := m.uncordon(ctx); err != nil {
		m.cfg.Log.Error("cannot uncordon the node at the end: unless the agent starts again, uncordon it by hand", "err", err)
	}
}

// Withdraw takes back what the agent has published: the state and its cause, the cordon, and the
// fact mig-ready. The label of the config is the user's, and the layouts stay. It is for an agent
// that does not come back to the node, after Run.
func (m *Manager) Withdraw(ctx context.Context) error {
	err := m.writer.Withdraw(ctx, nodestate.Published{Metadata: true, Cordon: true})
	if err != nil {
		err = fmt.Errorf("remove the label %s, the annotation %s and the cordon from node %s: %w", StateLabel, CauseAnnotation, m.cfg.Client.Node().Name, err)
	}
	return errors.Join(m.cfg.Contract.Remove(contract.MIGReady), err)
}
