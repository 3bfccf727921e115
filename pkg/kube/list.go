package kube

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"k8s.io/client-go/rest"
)

// Query selects the objects to list or watch.
type Query struct {
	// Object selects all objects of a resource, in one namespace or in all. If it has
	// a name, it selects only that object.
	Object
	// FieldSelector selects among the objects of a resource: "spec.nodeName=node1". It is not used
	// if Object has a name.
	FieldSelector string
	// LabelSelector selects among these objects: "pool=gpu,zone in (a,b)".
	LabelSelector string
	// Metadata requests only the metadata of the objects.
	Metadata bool
	// Page is the number of objects in one list request; 0 for 100. Large objects need a lower
	// number, because an answer has at most 4 MiB.
	Page int
}

// page is the default of Query.Page.
const page = 100

// query begins a request for the selected objects. metadata is the media type for
// Query.Metadata.
func (c *Client) query(q Query, metadata string) *rest.Request {
	of, selector, accept := q.Object, q.FieldSelector, asJSON
	if of.Name != "" {
		of.Name, selector = "", "metadata.name="+of.Name
	}
	if q.Metadata {
		accept = metadata
	}
	r := c.request(http.MethodGet, of).SetHeader("Accept", accept)
	if selector != "" {
		r.Param("fieldSelector", selector)
	}
	if q.LabelSelector != "" {
		r.Param("labelSelector", q.LabelSelector)
	}
	return r
}

// List returns the selected objects in their current state, in the order of the API server. It
// needs the verb list.
func List[T any](ctx context.Context, c *Client, q Query) ([]T, error) {
	all, _, err := list[T](ctx, c, q)
	return all, err
}

// list requests the selected objects in pages, because the size of one answer is limited. All pages
// have the same resource version, which it returns.
func list[T any](ctx context.Context, c *Client, q Query) (all []T, version string, err error) {
	for next := ""; ; {
		r := c.query(q, asMetadataList)
		if q.Name == "" {
			r.Param("limit", strconv.Itoa(cmp.Or(q.Page, page)))
		}
		if next != "" {
			r.Param("continue", next)
		}
		var list struct {
			Metadata struct {
				Continue        string `json:"continue"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if err := call(ctx, r, &list); err != nil {
			return nil, "", err
		}
		all = append(all, list.Items...)
		if next = list.Metadata.Continue; next == "" {
			return all, list.Metadata.ResourceVersion, nil
		}
	}
}
