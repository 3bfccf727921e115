package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
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
	// A watch lasts between watchMin and twice that, at random, so that those of a
	// cluster do not end together. The next one takes the token that is valid then.
	watchMin = 5 * time.Minute
	// watchGrace is how long an API server may be late to end a watch.
	watchGrace = 30 * time.Second
)

// Query selects the objects to watch.
type Query struct {
	// Object is a resource, in one namespace or all. With a name, only that object
	// is watched.
	Object
	// FieldSelector selects among the objects of a resource:
	// "spec.nodeName=node1".
	FieldSelector string
	// Metadata asks for the metadata of the objects only.
	Metadata bool
}

// Watch calls deliver with all selected objects, ordered by namespace and name:
// once when they are known, and again after each change of them that T decodes.
// deliver must not change what it gets. Watch returns when ctx ends; until then it
// logs what fails, and retries.
//
// It holds one T for each object, so T should have no more than its user needs. It
// needs the verbs list and watch.
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
	// version is the resource version after which the watch goes on. If empty, the
	// objects have to be listed first.
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
			w.client.cfg.Log.Warn("cannot watch objects, retrying", "resource", w.query.Resource, "name", w.query.Name, "in", in, "err", err)
		}
		if !pace.Pause(ctx, in) {
			return
		}
	}
}

// follow lists the objects, if they have to be, and watches them until the watch
// ends. It returns nil if the API server ended it in good order.
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
	var list struct {
		envelope
		Items []json.RawMessage `json:"items"`
	}
	if err := conn.call(ctx, w.request(url.Values{}), &list); err != nil {
		return err
	}
	was := w.objects
	w.objects = make(map[string]T, len(list.Items))
	for _, item := range list.Items {
		if _, err := w.put(item); err != nil {
			return err
		}
	}
	w.version = list.Metadata.ResourceVersion
	if !w.delivered || !reflect.DeepEqual(was, w.objects) {
		w.tell()
	}
	return nil
}

// put decodes an object into its place, and reports whether T changed.
func (w *watcher[T]) put(data []byte) (changed bool, err error) {
	var of envelope
	var object T
	if err := errors.Join(json.Unmarshal(data, &of), json.Unmarshal(data, &object)); err != nil {
		return false, fmt.Errorf("decode an object: %w", err)
	}
	was, known := w.objects[of.key()]
	w.objects[of.key()] = object
	return !known || !reflect.DeepEqual(was, object), nil
}

func (w *watcher[T]) tell() {
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
	body, err := conn.do(ctx, w.request(url.Values{
		"watch": {"true"}, "resourceVersion": {w.version}, "timeoutSeconds": {strconv.Itoa(int(lasts.Seconds()))},
	}))
	if err != nil {
		return err
	}
	defer body.Close()
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

// event is one of a watch (API reference, WatchEvent).
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// take notes an event.
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
		w.tell()
	}
	return nil
}

// request is for a list of the selected objects, or with "watch" for their events.
func (w *watcher[T]) request(query url.Values) request {
	of, selector := w.query.Object, w.query.FieldSelector
	if of.Name != "" {
		of.Name, selector = "", "metadata.name="+of.Name
	}
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	r := request{method: http.MethodGet, path: of.path(), query: query, accept: asJSON}
	switch {
	case w.query.Metadata && query.Has("watch"):
		r.accept = asMetadata
	case w.query.Metadata:
		r.accept = asMetadataList
	}
	return r
}
