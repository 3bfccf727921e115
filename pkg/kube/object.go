package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The media types of an object, and of only its metadata (Kubernetes API concepts, "Resource
// representation": PartialObjectMetadata).
const (
	asJSON         = "application/json"
	asMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Object names an object of the API, or all objects of a resource.
type Object struct {
	// API is the group and version: "v1" or "coordination.k8s.io/v1".
	API string
	// Resource is the plural name of the resource, as in the path: "nodes".
	Resource string
	// Namespace is empty for cluster-scoped objects, and for the objects of all namespaces.
	Namespace string
	// Name is empty for all objects of the resource.
	Name string
	// Subresource is "status" or "eviction", or empty for the object itself.
	Subresource string
}

// request begins a request about the object. The callers retry with RetryIn, because client-go does
// not retry.
func (c *Client) request(verb string, o Object) *rest.Request {
	group := "/apis/"
	if o.API == "v1" {
		group = "/api/"
	}
	r := c.api.Verb(verb).MaxRetries(0).AbsPath(group + o.API).Resource(o.Resource)
	if o.Namespace != "" {
		r.Namespace(o.Namespace)
	}
	if o.Name != "" {
		r.Name(o.Name)
	}
	if o.Subresource != "" {
		r.SubResource(o.Subresource)
	}
	return r
}

// write sends a body as the field manager Config.Agent, and decodes the resulting object into to.
// If to is nil, it does not request the object.
func (c *Client) write(ctx context.Context, r *rest.Request, content string, body, to any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the object: %w", err)
	}
	accept := asMetadata
	if to != nil {
		accept = asJSON
	}
	return call(ctx, r.Param("fieldManager", c.cfg.Agent).SetHeader("Accept", accept).SetHeader("Content-Type", content).Body(data), to)
}

// call sends a request and decodes the answer into to, unless to is nil.
func call(ctx context.Context, r *rest.Request, to any) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return explain(err)
	}
	if to == nil {
		return nil
	}
	data, err := result.Raw()
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("decode the answer of the API server: %w", err)
	}
	return nil
}

// Get decodes the object into to. It needs the verb get.
func (c *Client) Get(ctx context.Context, o Object, to any) error {
	return call(ctx, c.request(http.MethodGet, o).SetHeader("Accept", asJSON), to)
}

// Apply applies config to the object with server-side apply, as the field manager Config.Agent. It
// removes fields that the agent applied before and that config omits, unless another field manager
// also owns them. It takes over fields of config that other field managers own (force), and does
// not change their other fields. It decodes the resulting object into to, unless to is nil.
//
// It needs the verb patch, and the verb create if the object does not exist.
func (c *Client) Apply(ctx context.Context, o Object, config, to any) error {
	return c.write(ctx, c.request(http.MethodPatch, o).Param("force", "true"), string(types.ApplyYAMLPatchType), config, to)
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	// Op is the operation: "test", "remove", "add" or "replace".
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Patch applies all operations to the object, or none. If a test fails, the API server answers 422.
// Patch decodes the resulting object into to, unless to is nil. It needs the verb patch.
func (c *Client) Patch(ctx context.Context, o Object, ops []Operation, to any) error {
	return c.write(ctx, c.request(http.MethodPatch, o), string(types.JSONPatchType), ops, to)
}

// Unchanged returns a test that makes a patch fail if the object no longer has this
// resourceVersion.
func Unchanged(version string) Operation {
	return Operation{Op: "test", Path: "/metadata/resourceVersion", Value: json.RawMessage(strconv.Quote(version))}
}

// AnnotationPath returns the path of an annotation in a JSON patch (RFC 6901). A key has no "~".
func AnnotationPath(key string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
}

// LabelPath returns the path of a label in a JSON patch (RFC 6901). A key has no "~".
func LabelPath(key string) string {
	return "/metadata/labels/" + strings.ReplaceAll(key, "/", "~1")
}

// Create creates an object of a resource. The object contains its name. If an object of this name
// exists, the API server answers 409. It needs the verb create.
func (c *Client) Create(ctx context.Context, of Object, object any) error {
	return c.write(ctx, c.request(http.MethodPost, of), asJSON, object, nil)
}
