package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
)

// outputs are the destinations of labels and condition.
type outputs struct {
	// node writes to the agent's Node. It is nil for a process that does not write to it.
	node *nodestate.Keeper
	// taint is the taint to remove from the Node when its GPUs are ready.
	taint nodestate.Taint
	// labels is the destination of labels if that is not the Node.
	labels publish.Output
	keeper *publish.Keeper
	// api sends an Event for each change of the condition. last is the last condition.
	api  *cluster.API
	last nodestate.Condition
}

// outputs returns the outputs that the settings select.
func (s *settings) outputs(stdout io.Writer, log *slog.Logger) *outputs {
	o := &outputs{api: s.api, taint: s.taint}
	switch s.publish {
	case publishFile:
		o.labels = publish.File{Stamper: s.stamper(), Path: s.live.Config.GFD.OutputFile}
	case publishStdout:
		o.labels = &publish.Text{Stamper: s.stamper(), To: stdout}
	case publishNodeFeature:
		o.labels = publish.NodeFeature{Stamper: s.stamper(), Client: s.api.Client, Namespace: s.cluster.Namespace, Pod: s.podName}
	}
	if o.labels != nil {
		o.keeper = publish.NewKeeper(publish.KeeperConfig{
			Output: o.labels, Every: s.live.Config.GFD.SleepInterval, Log: log,
		})
	}
	switch {
	case s.publish == publishNode || len(s.chain) > 0 && s.api != nil:
		o.node = nodestate.NewKeeper(s.api.Client, nodestate.Config{Timestamp: s.timestamp(), Log: log})
	case len(s.chain) > 0:
		log.Info("not in a cluster, not writing the condition GPUReady")
	}
	return o
}

// set passes the desired state to the keepers, and reports changes of the condition as Events
// of the Node. It sends no Event for the first state, because the condition shows it.
func (o *outputs) set(w nodestate.Desired) {
	if c := w.Condition; c != nil {
		if was := o.last.Reason; was != "" && was != c.Reason {
			o.api.Event(kube.Event{Warning: c.Status != ready.True, Reason: c.Reason, Message: c.Message})
		}
		o.last = *c
		if c.Status == ready.True {
			w.Remove = o.taint
		}
	}
	if o.keeper != nil {
		o.keeper.Set(w.Labels)
		w.Labels = nil
	}
	if o.node != nil {
		o.node.Set(w)
	}
}

// parts returns the parts that publish. On withdrawal, they remove the labels from the Node if the
// parameter labels is set, and the condition if the parameter condition is set.
func (o *outputs) parts(labels, condition bool) []agent.Part {
	var parts []agent.Part
	if o.keeper != nil {
		p := agent.Part{Name: "labels", Run: o.keeper.Run, Ready: o.keeper.Err}
		switch out := o.labels.(type) {
		case publish.File:
			p.Withdraw = func(context.Context) error { return out.Remove() }
		case publish.NodeFeature:
			p.Withdraw = out.Withdraw
		}
		parts = append(parts, p)
	}
	if o.node != nil {
		parts = append(parts, agent.Part{
			Name: "node", Run: o.node.Run, Ready: o.node.Err,
			Withdraw: func(ctx context.Context) error {
				return o.node.Withdraw(ctx, nodestate.Published{Metadata: labels, Condition: condition})
			},
		})
	}
	return parts
}

// onceLimit is the limit for a single publication, so that a job does not wait forever for an
// API server that does not answer.
const onceLimit = time.Minute

// once publishes labels once.
func (o *outputs) once(ctx context.Context, w nodestate.Desired) error {
	ctx, cancel := context.WithTimeoutCause(ctx, onceLimit, errors.New("publish labels: no success within "+onceLimit.String()))
	defer cancel()
	err := o.put(ctx, w)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

func (o *outputs) put(ctx context.Context, w nodestate.Desired) error {
	if o.labels != nil {
		return o.labels.Put(ctx, w.Labels)
	}
	return o.node.Once(ctx, w)
}
