package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
	// watchSeconds bounds one watch, as the API server does by itself after a
	// random time; a connection that died without a word is found by then.
	watchSeconds = 600
)

// The media types of metadata without the rest of an object (Kubernetes API
// concepts, "Resource representation": PartialObjectMetadata).
const (
	acceptOne  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// object is what is read of a PartialObjectMetadata; of a Status, which stands
// in its place where a watch fails, it is Message.
type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		Labels          map[string]string `json:"labels"`
		ResourceVersion string            `json:"resourceVersion"`
	} `json:"metadata"`
	Message string `json:"message"`
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

// WatchLabels calls deliver with the labels of the own Node: once when they are
// known, and then whenever they change. The map is not used afterwards. It
// returns when ctx ends; what fails before is logged and tried again.
//
// It asks for metadata only, and needs the verbs list and watch on Nodes.
func (c *Client) WatchLabels(ctx context.Context, deliver func(map[string]string)) error {
	w := &labelWatch{client: c, deliver: deliver}
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
			c.cfg.Log.Warn("labels of the node are not known, trying again", "node", c.cfg.Node, "in", in, "err", err)
		}
		if !pace.Pause(ctx, in) {
			return nil
		}
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
	conn, err := w.client.connect()
	if err != nil {
		return err
	}
	defer conn.close()
	version, err := w.list(ctx, conn)
	if err != nil {
		return fmt.Errorf("read node %s: %w", w.client.cfg.Node, err)
	}
	if err := w.watch(ctx, conn, version); err != nil {
		return fmt.Errorf("watch node %s: %w", w.client.cfg.Node, err)
	}
	return nil
}

func (w *labelWatch) list(ctx context.Context, conn *connection) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	body, err := conn.do(ctx, http.MethodGet, w.path(url.Values{}), acceptList, nil)
	if err != nil {
		return "", err
	}
	defer body.Close()
	var list objectList
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&list); err != nil {
		return "", err
	}
	if len(list.Items) != 1 {
		return "", errors.New("there is no such node: is NODE_NAME right?")
	}
	w.seen(list.Items[0].Metadata.Labels)
	return list.Metadata.ResourceVersion, nil
}

func (w *labelWatch) watch(ctx context.Context, conn *connection, version string) error {
	ctx, cancel := context.WithTimeout(ctx, (watchSeconds+60)*time.Second)
	defer cancel()
	body, err := conn.do(ctx, http.MethodGet, w.path(url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(watchSeconds)},
	}), acceptOne, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var ev watchEvent
		err := dec.Decode(&ev)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		switch ev.Type {
		case "ADDED", "MODIFIED":
			w.seen(ev.Object.Metadata.Labels)
		case "DELETED":
			return errors.New("the node was deleted")
		case "ERROR":
			return errors.New(ev.Object.Message)
		}
	}
}

// path is that of Nodes, of which the own one is selected.
func (w *labelWatch) path(query url.Values) string {
	query.Set("fieldSelector", "metadata.name="+w.client.cfg.Node)
	return "/api/v1/nodes?" + query.Encode()
}

func (w *labelWatch) seen(labels map[string]string) {
	if w.known && maps.Equal(w.last, labels) {
		return
	}
	w.known, w.last = true, maps.Clone(labels)
	w.deliver(labels)
}
