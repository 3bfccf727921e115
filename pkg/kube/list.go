package kube

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Query selects the objects to list or watch.
type Query struct {
	// Object selects all objects of a resource, in one namespace or in all. If it has
	// a name, it selects only that object.
	Object
	// FieldSelector selects among the objects of a resource:
	// "spec.nodeName=node1". It is not used if Object has a name.
	FieldSelector string
	// LabelSelector selects among these objects: "pool=gpu,zone in (a,b)".
	LabelSelector string
	// Metadata requests only the metadata of the objects.
	Metadata bool
}

// page is the number of objects that are listed with one request.
const page = 100

// request returns the request for a list of the selected objects, or for a watch if
// the values have "watch".
func (q Query) request(query url.Values) request {
	of, selector := q.Object, q.FieldSelector
	if of.Name != "" {
		of.Name, selector = "", "metadata.name="+of.Name
	}
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	if q.LabelSelector != "" {
		query.Set("labelSelector", q.LabelSelector)
	}
	r := request{method: http.MethodGet, path: of.path(), query: query, accept: asJSON}
	switch {
	case q.Metadata && query.Has("watch"):
		r.accept = asMetadata
	case q.Metadata:
		r.accept = asMetadataList
	}
	return r
}

// List returns the selected objects as they are now, in the order of the API server. It
// needs the verb list.
func List[T any](ctx context.Context, c *Client, q Query) ([]T, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer conn.close()
	all, _, err := list[T](ctx, conn, q)
	return all, err
}

// list requests the selected objects in pages, because one answer is limited in size. All
// pages have the same resource version, which it returns.
func list[T any](ctx context.Context, conn *connection, q Query) (all []T, version string, err error) {
	for next := ""; ; {
		query := url.Values{}
		if q.Name == "" {
			query.Set("limit", strconv.Itoa(page))
		}
		if next != "" {
			query.Set("continue", next)
		}
		var list struct {
			Metadata struct {
				Continue        string `json:"continue"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if err := conn.call(ctx, q.request(query), &list); err != nil {
			return nil, "", err
		}
		all = append(all, list.Items...)
		if next = list.Metadata.Continue; next == "" {
			return all, list.Metadata.ResourceVersion, nil
		}
	}
}
