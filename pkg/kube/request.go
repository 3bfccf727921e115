package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// The media types of an object, and of its metadata alone (Kubernetes API
// concepts, "Resource representation": PartialObjectMetadata).
const (
	asJSON         = "application/json"
	asMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// The media types of patches (Kubernetes API concepts, "Updates to existing
// resources"). Apply takes YAML, and JSON is YAML.
const (
	applyPatch = "application/apply-patch+yaml"
	jsonPatch  = "application/json-patch+json"
)

// Object names an object of the API, or all objects of a resource.
type Object struct {
	// API is the group and version: "v1" or "coordination.k8s.io/v1".
	API string
	// Resource is the plural name of the resource, as in the path: "nodes".
	Resource string
	// Namespace is empty for cluster-scoped objects, and for the objects of all
	// namespaces.
	Namespace string
	// Name is empty for all objects of the resource.
	Name string
	// Subresource is "status" or "eviction", and usually empty.
	Subresource string
}

// path returns the path of the object on the API server (Kubernetes API concepts,
// "Resource URIs").
func (o Object) path() string {
	parts := []string{"/apis", o.API}
	if o.API == "v1" {
		parts[0] = "/api"
	}
	if o.Namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(o.Namespace))
	}
	parts = append(parts, o.Resource)
	if o.Name != "" {
		parts = append(parts, url.PathEscape(o.Name))
	}
	if o.Subresource != "" {
		parts = append(parts, o.Subresource)
	}
	return strings.Join(parts, "/")
}

// Get decodes the object into to. It needs the verb get.
func (c *Client) Get(ctx context.Context, o Object, to any) error {
	return c.call(ctx, request{method: http.MethodGet, path: o.path(), accept: asJSON}, to)
}

// Apply applies config to the object with server-side apply, as the field manager
// Config.Agent. It removes the fields that the agent applied before and that config
// omits, unless another field manager owns them too. It takes over the fields of
// config that other field managers own (force), and does not change their other
// fields.
//
// It needs the verb patch, and the verb create if the object does not exist.
func (c *Client) Apply(ctx context.Context, o Object, config any) error {
	body, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode the fields to apply: %w", err)
	}
	return c.call(ctx, request{
		method: http.MethodPatch, path: o.path(),
		query:  url.Values{"fieldManager": {c.cfg.Agent}, "force": {"true"}},
		accept: asMetadata, content: applyPatch, body: body,
	}, nil)
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	// Op is the operation: "test", "remove", "add" or "replace".
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Patch applies all operations to the object, or none. If a test fails, the API
// server answers 422. It needs the verb patch.
func (c *Client) Patch(ctx context.Context, o Object, ops []Operation) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	return c.call(ctx, request{
		method: http.MethodPatch, path: o.path(), query: url.Values{"fieldManager": {c.cfg.Agent}},
		accept: asMetadata, content: jsonPatch, body: body,
	}, nil)
}

// Create creates an object of a resource, whose name is in the object. If there is one
// already, the API server answers 409. It needs the verb create.
func (c *Client) Create(ctx context.Context, of Object, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode the object: %w", err)
	}
	return c.call(ctx, request{
		method: http.MethodPost, path: of.path(), query: url.Values{"fieldManager": {c.cfg.Agent}},
		accept: asMetadata, content: asJSON, body: body,
	}, nil)
}

// request is a request to the API server.
type request struct {
	method, path string
	query        url.Values
	// accept is the media type of the answer.
	accept string
	// content is the media type of body, which is nil for none.
	content string
	body    []byte
}

// do sends a request and returns the answer's body, which the caller closes.
func (c *connection) do(ctx context.Context, r request) (io.ReadCloser, error) {
	target := c.cfg.Server + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("User-Agent", c.cfg.Agent)
	req.Header.Set("Accept", r.accept)
	if r.body != nil {
		req.Header.Set("Content-Type", r.content)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, newStatusError(resp)
	}
	return resp.Body, nil
}

// call sends a request and decodes the answer into to, unless that is nil.
func (c *connection) call(ctx context.Context, r request, to any) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	body, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer body.Close()
	if to == nil {
		return nil
	}
	if err := newDecoder(body).decode(to); err != nil {
		return fmt.Errorf("decode the answer of the API server: %w", err)
	}
	return nil
}

// call sends a request over a connection of its own.
func (c *Client) call(ctx context.Context, r request, to any) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.close()
	return conn.call(ctx, r, to)
}
