package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/nodestate"
)

// endLimit is the time limit of requests at the end of Run.
const endLimit = 10 * time.Second

// uncordonAtEnd uncordons the node if this agent has cordoned it, because the agent might not start
// again. An agent that starts again cordons the node again. Before a reboot, the node stays
// cordoned, because new pods would prevent the change after it.
func (m *Manager) uncordonAtEnd(ctx context.Context) {
	if !m.currentNode().Cordoned && !m.cordoned || m.attempt.Rebooting {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := m.uncordon(ctx); err != nil {
		m.cfg.Log.Error("cannot uncordon the node at shutdown; if the agent does not start again, run kubectl uncordon", "err", err)
	}
}

// Withdraw removes the published state and its cause, the cordon, and the fact mig-ready. It keeps
// the label of the config, which users write, and the layouts. Call it after Run, if the agent does
// not return to the node.
func (m *Manager) Withdraw(ctx context.Context) error {
	err := m.writer.Withdraw(ctx, nodestate.Published{Metadata: true, Cordon: true})
	if err != nil {
		err = fmt.Errorf("remove the label %s, the annotation %s and the cordon from node %s: %w", StateLabel, CauseAnnotation, m.cfg.Client.Node().Name, err)
	}
	return errors.Join(m.cfg.Contract.Remove(contract.MIGReady), err)
}
