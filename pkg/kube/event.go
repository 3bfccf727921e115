package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
)

// Event is one thing that a person who looks at the Node should know.
type Event struct {
	// Warning is false for what is normal.
	Warning bool
	// Reason is one word in CamelCase: "GPUUnhealthy".
	Reason string
	// Message is for people.
	Message string
}

const (
	// eventQueue bounds what waits while the API server does not answer.
	eventQueue = 64
	// eventTries is how often an event is sent before it is given up: a node
	// without network must not pile up news of hours ago.
	eventTries = 6
	// maxMessage is the most that an Event's message may hold (1 KiB, API
	// reference of events.k8s.io).
	maxMessage = 1024
	// eventBurst is how many events may come at once, and eventEvery is when the
	// next one may: a GPU that comes and goes, on each node of a cluster, must not
	// fill the store of the API server. client-go has the same burst.
	eventBurst = 25
	eventEvery = time.Minute
	// eventNamespace holds the Events of objects that are in no namespace.
	eventNamespace = "default"
)

// Events sends Events about the own Node, as "kubectl describe node" shows them.
type Events struct {
	client *Client
	queue  chan stamped

	mu     sync.Mutex
	budget budget
}

// budget is how many events may be sent.
type budget struct {
	left int
	// since is when the last one was added, while it is not full.
	since time.Time
	// refused counts those that were not sent since it was last told.
	refused int
}

// spend reports whether an event may be sent at a time.
func (b *budget) spend(now time.Time) bool {
	if b.left == eventBurst {
		b.since = now
	}
	added := int(now.Sub(b.since) / eventEvery)
	b.left = min(b.left+added, eventBurst)
	b.since = b.since.Add(time.Duration(added) * eventEvery)
	if b.left == 0 {
		b.refused++
		return false
	}
	b.left--
	return true
}

// stamped is an event with the time at which it happened.
type stamped struct {
	Event
	at time.Time
}

// NewEvents returns the sender of a client's Events; it sends while Run runs.
func NewEvents(c *Client) *Events {
	return &Events{client: c, queue: make(chan stamped, eventQueue), budget: budget{left: eventBurst}}
}

// Tell queues an event. It never blocks, and is safe for concurrent use. An event
// beyond what a node may send is left out, which is logged; so is one while more
// wait than the queue holds.
func (e *Events) Tell(ev Event) {
	now, log := time.Now(), e.client.cfg.Log
	e.mu.Lock()
	may, refused := e.budget.spend(now), e.budget.refused
	if may {
		e.budget.refused = 0
	}
	e.mu.Unlock()
	switch {
	case may && refused > 0:
		log.Warn("events were left out, they came too fast: what they said is in the log", "count", refused)
	case !may && refused == 1:
		log.Warn("events come too fast, leaving out some", "burst", eventBurst, "then_one_in", eventEvery, "reason", ev.Reason)
	}
	if !may {
		return
	}
	select {
	case e.queue <- stamped{Event: ev, at: now}:
	default:
		log.Warn("event dropped, the API server does not keep up", "reason", ev.Reason, "message", ev.Message)
	}
}

// Run sends what is queued until ctx ends. What cannot be sent is logged. It
// needs the verb create on events in the namespace "default".
func (e *Events) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-e.queue:
			if err := e.send(ctx, ev); err != nil && ctx.Err() == nil {
				e.client.cfg.Log.Warn("event not sent", "reason", ev.Reason, "message", ev.Message, "err", err)
			}
		}
	}
}

// send tries until the API server has taken the event, or refuses it.
func (e *Events) send(ctx context.Context, ev stamped) error {
	body, err := e.encode(ev)
	if err != nil {
		return err
	}
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for try := 1; ; try++ {
		err := e.post(ctx, body)
		if err == nil || Refused(err) || try == eventTries {
			return err
		}
		if !retry.Pause(ctx) {
			return ctx.Err()
		}
	}
}

func (e *Events) post(ctx context.Context, event []byte) error {
	err := e.client.call(ctx, request{
		method: http.MethodPost, path: "/api/v1/namespaces/" + eventNamespace + "/events",
		accept: asJSON, content: asJSON, body: event,
	}, nil)
	if err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}

// encode returns the event as the core API's Event.
func (e *Events) encode(ev stamped) ([]byte, error) {
	cfg := e.client.cfg
	kind := "Normal"
	if ev.Warning {
		kind = "Warning"
	}
	at := ev.at.UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"generateName": cfg.Node + ".", "namespace": eventNamespace},
		// The kubelet writes the name where the UID belongs, and kubectl looks
		// for both.
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": cfg.Node, "uid": cfg.Node},
		"type":           kind, "reason": ev.Reason, "message": text.Cut(ev.Message, maxMessage), "count": 1,
		"firstTimestamp": at, "lastTimestamp": at,
		"source":             map[string]any{"component": cfg.Agent, "host": cfg.Node},
		"reportingComponent": cfg.Agent, "reportingInstance": cfg.Node,
	})
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", ev.Reason, err)
	}
	return body, nil
}
