package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
	// watchSeconds bounds one watch, as the API server does by itself after a
	// random time; a connection that died without a word is found by then, and
	// none outlives its token by much.
	watchSeconds = 600
)

// watch follows the own Node, of which it delivers the part T.
type watch[T any] struct {
	client *Client
	// one and list are the media types in which the Node is asked for.
	one, list string
	// part returns what is wanted of the Node.
	part    func(*object) T
	deliver func(T)
	// failed tells of what is tried again.
	failed func(in time.Duration, err error)

	last  T
	known bool
}

type objectList struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []object `json:"items"`
}

type watchEvent struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// run follows the Node until ctx ends.
func (w *watch[T]) run(ctx context.Context) error {
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for {
		start := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		if time.Since(start) > retryMax {
			retry.Reset()
		}
		in := retry.Next()
		if err != nil {
			w.failed(in, err)
		}
		if !pace.Pause(ctx, in) {
			return nil
		}
	}
}

// follow reads the Node once and follows it until the watch ends, which is nil
// for one that the API server ended in good order. It makes a connection of its
// own, and so takes the token as it is then.
func (w *watch[T]) follow(ctx context.Context) error {
	conn, err := w.client.connect()
	if err != nil {
		return err
	}
	defer conn.close()
	version, err := w.read(ctx, conn)
	if err != nil {
		return fmt.Errorf("read node %s: %w", w.client.cfg.Node, err)
	}
	if err := w.stream(ctx, conn, version); err != nil {
		return fmt.Errorf("watch node %s: %w", w.client.cfg.Node, err)
	}
	return nil
}

func (w *watch[T]) read(ctx context.Context, conn *connection) (version string, err error) {
	var list objectList
	if err := conn.call(ctx, w.request(w.list, url.Values{}), &list); err != nil {
		return "", err
	}
	if len(list.Items) != 1 {
		return "", errors.New("there is no such node: is NODE_NAME right?")
	}
	w.seen(&list.Items[0])
	return list.Metadata.ResourceVersion, nil
}

func (w *watch[T]) stream(ctx context.Context, conn *connection, version string) error {
	ctx, cancel := context.WithTimeout(ctx, (watchSeconds+60)*time.Second)
	defer cancel()
	body, err := conn.do(ctx, w.request(w.one, url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(watchSeconds)},
	}))
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var ev watchEvent
		err := dec.Decode(&ev)
		switch {
		case ev.Type == "ERROR":
			// The object is a Status, of which "status" is no object: all else of it
			// is decoded in spite of that error.
			return errors.New(ev.Object.Message)
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		switch ev.Type {
		case "ADDED", "MODIFIED":
			w.seen(&ev.Object)
		case "DELETED":
			return errors.New("the node was deleted")
		}
	}
}

// request is for Nodes, of which the own one is selected: what may be watched.
func (w *watch[T]) request(accept string, query url.Values) request {
	query.Set("fieldSelector", "metadata.name="+w.client.cfg.Node)
	return request{method: http.MethodGet, path: "/api/v1/nodes", query: query, accept: accept}
}

func (w *watch[T]) seen(o *object) {
	now := w.part(o)
	if w.known && reflect.DeepEqual(w.last, now) {
		return
	}
	w.known, w.last = true, now
	w.deliver(now)
}
