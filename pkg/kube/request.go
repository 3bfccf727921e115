package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// answerLimit bounds a request that is answered at once.
	answerLimit = 30 * time.Second
	// maxAnswer is far above any object: etcd takes no more than 1.5 MiB by
	// default.
	maxAnswer = 4 << 20
	// maxRefusal bounds what is read of an answer that is none of success.
	maxRefusal = 16 << 10
)

// The media types of an object and of the metadata of one without the rest
// (Kubernetes API concepts, "Resource representation": PartialObjectMetadata).
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

// request is what is sent to the API server.
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
		return nil, newStatusError(resp.StatusCode, resp.Body)
	}
	return resp.Body, nil
}

// call sends a request and decodes the answer into to, which is nil for an
// answer that says nothing new.
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
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(to); err != nil {
		return fmt.Errorf("decode the answer of the API server: %w", err)
	}
	return nil
}

// call is that of a connection for this one request.
func (c *Client) call(ctx context.Context, r request, to any) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.close()
	return conn.call(ctx, r, to)
}

// apply has an object be as config says, in what config names: server-side
// apply. What the agent applied before and config does not name is removed. What
// others own is taken from them where config names it, and stays where not.
func (c *Client) apply(ctx context.Context, path string, config map[string]any) error {
	body, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return c.call(ctx, request{
		method: http.MethodPatch, path: path,
		query:  url.Values{"fieldManager": {c.cfg.Agent}, "force": {"true"}},
		accept: asMetadata, content: applyPatch, body: body,
	}, nil)
}

// statusError is an answer that is none of success, with what the API server
// says of it in the Status object that it sends.
type statusError struct {
	code    int
	message string
	// name is that of the object that the answer is about, empty where it is about
	// none: for a path that is not served.
	name string
}

func newStatusError(code int, body io.Reader) *statusError {
	data, _ := io.ReadAll(io.LimitReader(body, maxRefusal)) // what there is will do
	var status struct {
		Message string `json:"message"`
		Details struct {
			Name string `json:"name"`
		} `json:"details"`
	}
	if json.Unmarshal(data, &status) != nil || status.Message == "" {
		return &statusError{code: code, message: strings.TrimSpace(string(data))}
	}
	return &statusError{code: code, message: status.Message, name: status.Details.Name}
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the API server answers %d %s: %s%s", e.code, http.StatusText(e.code), e.message, e.fix())
}

// fix says what to do, where that follows from the answer.
func (e *statusError) fix() string {
	switch {
	case e.code != http.StatusForbidden:
		return ""
	case strings.Contains(e.message, `cannot create resource "nodes"`):
		// To apply to an object that is not there is to create it.
		return " (there is no such node: is NODE_NAME right?)"
	case strings.Contains(e.message, `User "`) && strings.Contains(e.message, " cannot "):
		return " (no role of the pod's service account allows that verb: does the chart that is installed fit this version?)"
	default:
		return "" // an admission policy, which has its own words
	}
}

// Refused reports whether err is an answer of the API server by which the same
// request will fail again until somebody changes something: a token that is not
// taken, a right that is missing, an admission policy, a value that is not valid,
// an object that is not there. All else may pass: an API server that is away or
// asks for patience, a conflict with another writer.
func Refused(err error) bool {
	var status *statusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.code {
	case http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return status.code >= 400 && status.code < 500
	}
}

// answered reports whether err is an answer with one of the codes.
func answered(err error, codes ...int) bool {
	var status *statusError
	return errors.As(err, &status) && slices.Contains(codes, status.code)
}

// unserved reports whether err is the answer to a path that the API server does
// not serve: one about an object that is missing names it.
func unserved(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == http.StatusNotFound && status.name == ""
}
