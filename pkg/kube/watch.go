package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
	// A watch lasts between watchMin and twice that, at random, so that the watches of
	// a cluster do not end together. The next watch uses the token that is valid then.
	watchMin = 5 * time.Minute
	// watchGrace is how much longer than requested an API server may keep a watch open.
	watchGrace = 30 * time.Second
)

// Watch calls deliver with all selected objects, ordered by namespace and name: once
// when they are known, and again whenever one of them is added, deleted, or changed in
// a field of T. deliver must not change the objects. Watch returns when ctx ends. Until
// then, it logs failures and retries.
//
// Watch keeps one T for each object, so T should have only the fields that the caller
// needs. It needs the verbs list and watch.
func Watch[T any](ctx context.Context, c *Client, q Query, deliver func([]T)) {
	w := watcher[T]{client: c, query: q, deliver: deliver, objects: map[string]T{}}
	w.run(ctx)
}

// watcher follows objects.
type watcher[T any] struct {
	client  *Client
	query   Query
	deliver func([]T)

	// objects are the selected ones, by namespace and name.
	objects map[string]T
	// version is the resource version after which the watch continues. If empty, the
	// objects must be listed first.
	version   string
	delivered bool
}

// envelope is what Watch reads of each object.
type envelope struct {
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

func (e envelope) key() string { return e.Metadata.Namespace + "/" + e.Metadata.Name }

func (w *watcher[T]) run(ctx context.Context) {
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	defer w.works(nil)
	for {
		start := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > retryMax {
			retry.Reset()
		}
		in := RetryIn(&retry, err)
		if err != nil {
			w.works(err)
			w.client.cfg.Log.Warn("cannot watch objects, retrying", "resource", w.query.Resource, "name", w.query.Name, "in", in, "err", err)
		}
		if !pace.Pause(ctx, in) {
			return
		}
	}
}

// works records that the watch works, or why it does not.
func (w *watcher[T]) works(err error) { w.client.failing.Set(w, err, time.Now()) }

// follow lists the objects, if version is empty, and watches them until the watch
// ends. It returns nil if the watch ended without an error.
func (w *watcher[T]) follow(ctx context.Context) error {
	conn, err := w.client.connect()
	if err != nil {
		return err
	}
	defer conn.close()
	if w.version == "" {
		if err := w.list(ctx, conn); err != nil {
			return fmt.Errorf("list %s: %w", w.query.Resource, err)
		}
	}
	err = w.watch(ctx, conn)
	if _, is := errors.AsType[*StatusError](err); is {
		// The version may be too old, or is not served for another reason.
		w.version = ""
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.query.Resource, err)
	}
	return nil
}

func (w *watcher[T]) list(ctx context.Context, conn *connection) error {
	items, version, err := list[item[T]](ctx, conn, w.query)
	if err != nil {
		return err
	}
	was := w.objects
	w.objects = make(map[string]T, len(items))
	for _, i := range items {
		w.objects[i.of.key()] = i.object
	}
	w.version = version
	if !w.delivered || !reflect.DeepEqual(was, w.objects) {
		w.notify()
	}
	return nil
}

// item is a T with its envelope. It does not keep what is in neither, so that a list takes
// no more memory than one of its pages.
type item[T any] struct {
	of     envelope
	object T
}

// UnmarshalJSON decodes an object.
func (i *item[T]) UnmarshalJSON(data []byte) error {
	if err := errors.Join(json.Unmarshal(data, &i.of), json.Unmarshal(data, &i.object)); err != nil {
		return fmt.Errorf("decode an object: %w", err)
	}
	return nil
}

// put decodes an object into objects, and reports whether its T changed.
func (w *watcher[T]) put(data []byte) (changed bool, err error) {
	var i item[T]
	if err := json.Unmarshal(data, &i); err != nil {
		return false, err
	}
	was, known := w.objects[i.of.key()]
	w.objects[i.of.key()] = i.object
	return !known || !reflect.DeepEqual(was, i.object), nil
}

func (w *watcher[T]) notify() {
	w.delivered = true
	all := make([]T, 0, len(w.objects))
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		all = append(all, w.objects[key])
	}
	if w.query.Name != "" && len(all) == 0 {
		w.client.cfg.Log.Warn("watched object does not exist, waiting for it", "resource", w.query.Resource, "name", w.query.Name)
	}
	w.deliver(all)
}

func (w *watcher[T]) watch(ctx context.Context, conn *connection) error {
	lasts := watchMin + rand.N(watchMin) //nolint:gosec // no secret depends on it
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	defer cancel()
	body, err := conn.do(ctx, w.query.request(url.Values{
		"watch": {"true"}, "resourceVersion": {w.version}, "timeoutSeconds": {strconv.Itoa(int(lasts.Seconds()))},
	}))
	if err != nil {
		return err
	}
	defer body.Close()
	w.works(nil)
	for dec := newDecoder(body); ; {
		var ev event
		err := dec.decode(&ev)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := w.take(ev); err != nil {
			return err
		}
	}
}

// event is an event of a watch (API reference, WatchEvent).
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// take applies an event to objects, and calls notify if it changed them.
func (w *watcher[T]) take(ev event) error {
	changed := false
	var of envelope
	if err := json.Unmarshal(ev.Object, &of); err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	switch ev.Type {
	case "ERROR":
		var s status
		if err := json.Unmarshal(ev.Object, &s); err != nil {
			return fmt.Errorf("decode a failure: %w", err)
		}
		return s.err()
	case "ADDED", "MODIFIED":
		var err error
		if changed, err = w.put(ev.Object); err != nil {
			return err
		}
	case "DELETED":
		_, changed = w.objects[of.key()]
		delete(w.objects, of.key())
	}
	w.version = of.Metadata.ResourceVersion
	if changed {
		w.notify()
	}
	return nil
}
