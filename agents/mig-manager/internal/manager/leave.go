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

// restoreAtEnd uncordons the node and ends the pause, if this agent has cordoned or paused it, because the agent might not
// start again. An agent that starts again cordons and pauses the node again. Before a reboot, both stay, because new pods
// would prevent the change after it.
func (m *Manager) restoreAtEnd(ctx context.Context) {
	if m.attempt.Rebooting {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	n := m.currentNode()
	if n.Cordoned || m.cordoned {
		if err := m.uncordon(ctx); err != nil {
			m.cfg.Log.Error("cannot uncordon the node at shutdown; if the agent does not start again, run kubectl uncordon", "err", err)
		}
	}
	if n.Paused || m.paused {
		if err := m.resume(ctx); err != nil {
			m.cfg.Log.Error("cannot end the pause of DaemonSets at shutdown; if the agent does not start again, set the labels nvidia.com/gpu.deploy.… of the Node to true", "err", err)
		}
	}
}

// Withdraw removes the published state and its cause, the cordon, and the fact mig-ready, and ends the pause. It
// keeps the label of the config, which users write, and the layouts. Call it after Run, if the agent does
// not return to the node.
func (m *Manager) Withdraw(ctx context.Context) error {
	err := m.writer.Withdraw(ctx, nodestate.Published{Metadata: true, Cordon: true, Pause: true})
	if err != nil {
		err = fmt.Errorf("remove the label %s, the annotation %s and the cordon from node %s, and end its pause: %w", StateLabel, CauseAnnotation, m.cfg.Client.Node().Name, err)
	}
	return errors.Join(m.cfg.Contract.Remove(contract.MIGReady), err)
}
