package app

import (
	"context"
	"sync"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/kube"
)

// news tells what is wanted to those who publish it, and what changes of the
// condition as Events of the Node.
type news struct {
	out *outputs
	// events is nil where nobody wants them.
	events *kube.Events

	mu   sync.Mutex
	last kube.Condition
}

func (s settings) news(c *cli.Context, out *outputs) *news {
	n := &news{out: out}
	if s.client != nil && c.Bool("report-events") {
		n.events = kube.NewEvents(s.client)
	}
	return n
}

func (n *news) want(w publish.Wanted) {
	n.out.want(w)
	if n.events == nil || w.Ready == nil {
		return
	}
	n.mu.Lock()
	was := n.last
	n.last = *w.Ready
	n.mu.Unlock()
	// What holds at the start is no news: the condition tells it.
	if was.Reason != "" && was.Reason != w.Ready.Reason {
		n.events.Tell(kube.Event{Warning: w.Ready.Status != "True", Reason: w.Ready.Reason, Message: w.Ready.Message})
	}
}

func (n *news) run(ctx context.Context) error {
	if n.events == nil {
		return nil
	}
	return n.events.Run(ctx)
}

// configured hands discovery the configs that follow, and tells in Events why a
// newer one is not used.
type configured struct {
	*discovery.Discovery
	news *news
}

// Refuse tells why a newer config is not used.
func (c configured) Refuse(err error) {
	c.Discovery.Refuse(err)
	if c.news.events != nil {
		c.news.events.Tell(kube.Event{Warning: true, Reason: "ConfigRefused", Message: err.Error()})
	}
}
