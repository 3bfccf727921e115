package kube

import (
	"context"
	"sync"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
)

// Event is an Event about the Node, for people who operate it.
type Event struct {
	// Warning is set if a person may have to act. It selects the type of the Event: Warning or
	// Normal.
	Warning bool
	// Reason is one word in CamelCase: "GPUUnhealthy".
	Reason string
	// Message explains the Event. It is cut to 1024 bytes.
	Message string
}

const (
	// eventQueue is the number of Events that can wait while the API server does not answer.
	eventQueue = 64
	// eventTries is the number of attempts to send an Event. It is limited so that a node without
	// network does not keep Events for hours.
	eventTries = 6
	// maxMessage is the longest message of an Event (1 KiB, API reference of
	// events.k8s.io).
	maxMessage = 1024
	// eventBurst Events can be sent at once, and then one in each eventEvery, so that an unstable
	// GPU on each node of a cluster does not fill the store of the API server. client-go has the
	// same burst.
	eventBurst = 25
	eventEvery = time.Minute
	// eventNamespace is the namespace of the Events of cluster-scoped objects.
	eventNamespace = "default"
)

// Events sends Events about the agent's Node, which "kubectl describe node" shows.
type Events struct {
	client *Client
	queue  chan timedEvent

	mu     sync.Mutex
	budget pace.Budget
	// dropped counts the Events that the rate limit has dropped since the last one was sent.
	dropped int
}

// timedEvent is an Event with its time.
type timedEvent struct {
	Event
	at time.Time
}

// NewEvents returns an Events that sends through c. It sends while Run runs.
func NewEvents(c *Client) *Events {
	return &Events{client: c, queue: make(chan timedEvent, eventQueue), budget: pace.Budget{Burst: eventBurst, Every: eventEvery}}
}

// Report queues an Event. It never blocks, and is safe for concurrent use. If the Event exceeds the
// rate limit, or the queue is full, Report drops the Event and logs that Events are dropped.
func (e *Events) Report(ev Event) {
	now, log := time.Now(), e.client.cfg.Log
	e.mu.Lock()
	may := e.budget.Spend(now)
	if !may {
		e.dropped++
	}
	dropped := e.dropped
	if may {
		e.dropped = 0
	}
	e.mu.Unlock()
	switch {
	case may && dropped > 0:
		log.Warn("sending events again, the dropped events are only in the log", "dropped", dropped)
	case !may && dropped == 1:
		log.Warn("too many events, dropping some", "burst", eventBurst, "then_one_in", eventEvery, "reason", ev.Reason)
	}
	if !may {
		return
	}
	select {
	case e.queue <- timedEvent{Event: ev, at: now}:
	default:
		log.Warn("event queue is full, dropping event", "reason", ev.Reason, "message", ev.Message)
	}
}

// Run sends the queued Events until ctx ends, and logs the Events that it cannot send. It needs the
// verb create on events in the namespace "default".
func (e *Events) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-e.queue:
			if err := e.send(ctx, ev); err != nil && ctx.Err() == nil {
				e.client.cfg.Log.Warn("cannot send event, dropping it", "reason", ev.Reason, "message", ev.Message, "err", err)
			}
		}
	}
}

// send retries until the API server accepts or rejects the Event, at most eventTries times.
func (e *Events) send(ctx context.Context, ev timedEvent) error {
	object := e.object(ev)
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for try := 1; ; try++ {
		err := e.client.Create(ctx, Object{API: "v1", Resource: "events", Namespace: eventNamespace}, object)
		if err == nil || isRejected(err) || try == eventTries {
			return err
		}
		if !pace.Pause(ctx, RetryIn(&retry, err)) {
			return ctx.Err()
		}
	}
}

// object returns the Event in the form of the core API.
func (e *Events) object(ev timedEvent) map[string]any {
	cfg := e.client.cfg
	kind := "Normal"
	if ev.Warning {
		kind = "Warning"
	}
	at := ev.at.UTC().Format(time.RFC3339)
	return map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"generateName": cfg.Node + ".", "namespace": eventNamespace},
		// The kubelet also writes the Node's name as UID. kubectl finds both kinds.
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": cfg.Node, "uid": cfg.Node},
		"type":           kind, "reason": ev.Reason, "message": text.Cut(ev.Message, maxMessage), "count": 1,
		"firstTimestamp": at, "lastTimestamp": at,
		"source":             map[string]any{"component": cfg.Agent, "host": cfg.Node},
		"reportingComponent": cfg.Agent, "reportingInstance": cfg.Node,
	}
}
