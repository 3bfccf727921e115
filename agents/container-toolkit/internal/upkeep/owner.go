package upkeep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/pkg/kube"
)

// ownerLimit bounds the question about the DaemonSet when the agent stops.
const ownerLimit = 2 * time.Second

// Owner is the DaemonSet to which the agent's pod belongs.
type Owner struct {
	Client *kube.Client
	Object kube.Object
	// ToolsDir is the folder of the tools on the host.
	ToolsDir string
	Log      *slog.Logger

	mu sync.Mutex
	// seen is set once the DaemonSet was there, and gone while it is being deleted, or no
	// longer exists.
	seen, gone bool
}

// daemonSet is what Owner reads.
type daemonSet struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// Watch follows the DaemonSet until ctx ends. When a release is uninstalled, the rights of
// the agent go with the DaemonSet; a watch that has begun still reports its end.
func (o *Owner) Watch(ctx context.Context) {
	if o == nil {
		return
	}
	kube.Watch(ctx, o.Client, kube.Query{Object: o.Object, Metadata: true}, func(sets []daemonSet) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.note(sets)
	})
}

func (o *Owner) note(sets []daemonSet) {
	o.seen = o.seen || len(sets) > 0
	o.gone = o.seen && (len(sets) == 0 || sets[0].Metadata.DeletionTimestamp != "")
}

// Deleted reports whether the DaemonSet is being deleted or is gone. If a pod ends for any
// other reason, such as an update or the drain of its node, what the agent has made on the
// node stays.
func (o *Owner) Deleted(ctx context.Context) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	seen, gone := o.seen, o.gone
	o.mu.Unlock()
	if gone || !seen {
		return gone
	}
	// The watch may be behind, or interrupted.
	ctx, cancel := context.WithTimeout(ctx, ownerLimit)
	defer cancel()
	deleted, err := o.Client.Deleted(ctx, o.Object)
	if err == nil {
		return deleted
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.gone {
		// After an update the next pod needs everything, and there may be nobody who takes it
		// back after a deletion: only a person knows.
		o.Log.Warn("cannot ask whether the DaemonSet of this agent is deleted, leaving all changes of the node; if it is, take them back by hand",
			"command", unconfigure(o.ToolsDir), "folder", o.ToolsDir, "err", err)
	}
	return o.gone
}
