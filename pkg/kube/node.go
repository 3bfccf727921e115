package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
	// watchSeconds bounds one watch, as the API server does by itself after a
	// random time; a connection that died without a word is found by then.
	watchSeconds = 600
)

func nodes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
}

// WatchLabels calls deliver with the labels of the own Node: once when they are
// known, and then whenever they change. The map is not used afterwards. It
// returns when ctx ends; what fails before is logged and tried again.
//
// It asks for metadata only (PartialObjectMetadata, Kubernetes API "Metadata
// only requests"), and needs the verbs list and watch on the Node of this name.
func (c *Client) WatchLabels(ctx context.Context, deliver func(map[string]string)) error {
	w := &labelWatch{client: c, deliver: deliver}
	retry := retryMin
	for {
		start := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		if time.Since(start) > retryMax {
			retry = retryMin
		}
		if err != nil {
			c.cfg.Log.Warn("labels of the node are not known, trying again", "node", c.cfg.Node, "in", retry, "err", err)
		}
		if !pause(ctx, retry) {
			return nil
		}
		retry = min(2*retry, retryMax)
	}
}

type labelWatch struct {
	client  *Client
	deliver func(map[string]string)
	last    map[string]string
	known   bool
}

// follow reads the Node once and follows it until the watch ends, which is nil
// for one that the API server ended in good order.
func (w *labelWatch) follow(ctx context.Context) error {
	c := w.client
	byName := fields.OneTermEqualSelector("metadata.name", c.cfg.Node).String()
	list, err := c.meta.Resource(nodes()).List(ctx, metav1.ListOptions{FieldSelector: byName})
	if err != nil {
		return fmt.Errorf("read node %s: %w", c.cfg.Node, err)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("read node %s: there is no such node: is NODE_NAME right?", c.cfg.Node)
	}
	w.seen(list.Items[0].Labels)
	timeout := int64(watchSeconds)
	events, err := c.meta.Resource(nodes()).Watch(ctx, metav1.ListOptions{
		FieldSelector: byName, ResourceVersion: list.ResourceVersion, TimeoutSeconds: &timeout, AllowWatchBookmarks: true,
	})
	if err != nil {
		return fmt.Errorf("watch node %s: %w", c.cfg.Node, err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			if err := w.event(ev); err != nil {
				return err
			}
		}
	}
}

func (w *labelWatch) event(ev watch.Event) error {
	switch ev.Type {
	case watch.Added, watch.Modified:
		if node, ok := ev.Object.(*metav1.PartialObjectMetadata); ok {
			w.seen(node.Labels)
		}
	case watch.Deleted:
		return errors.New("the node was deleted")
	case watch.Error:
		if status, ok := ev.Object.(*metav1.Status); ok {
			return fmt.Errorf("watch node %s: %s", w.client.cfg.Node, status.Message)
		}
		return fmt.Errorf("watch node %s: the API server ended it", w.client.cfg.Node)
	case watch.Bookmark:
	}
	return nil
}

func (w *labelWatch) seen(labels map[string]string) {
	if w.known && maps.Equal(w.last, labels) {
		return
	}
	w.known, w.last = true, maps.Clone(labels)
	w.deliver(labels)
}

// pause waits, and returns false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
