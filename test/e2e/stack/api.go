package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The kinds of patches.
const (
	JSONPatch       = "application/json-patch+json"
	MergePatch      = "application/merge-patch+json"
	StrategicPatch  = "application/strategic-merge-patch+json"
	ServerSideApply = "application/apply-patch+yaml"
)

// API sends requests to the API server as one user. It keeps its connections open, so that requests
// can follow each other as fast as an agent's requests.
type API struct {
	http *http.Client
}

// Rejection is an error response of the API server.
type Rejection struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (r *Rejection) Error() string { return fmt.Sprintf("%d %s: %s", r.Code, r.Reason, r.Message) }

// Admin returns the API as the cluster's administrator. The caller closes it.
func (s *Stack) Admin() (*API, error) { return s.api("") }

// AccountOf returns the API as the service account of a pod in Namespace. The token is bound to the
// pod and its node, like the token that the kubelet mounts. The caller closes the API.
func (s *Stack) AccountOf(ctx context.Context, pod string) (*API, error) {
	found, err := s.Kubectl(ctx, "-n", Namespace, "get", "pod", pod, "-o", "jsonpath={.spec.serviceAccountName} {.metadata.uid}")
	if err != nil {
		return nil, err
	}
	account, uid, _ := strings.Cut(found, " ")
	return s.Account(ctx, account, "--bound-object-kind", "Pod", "--bound-object-name", pod, "--bound-object-uid", uid)
}

// Account returns the API as a service account of Namespace, with a token from "kubectl create
// token" with these flags. The caller closes the API.
func (s *Stack) Account(ctx context.Context, name string, flags ...string) (*API, error) {
	token, err := s.Kubectl(ctx, append([]string{"-n", Namespace, "create", "token", name}, flags...)...)
	if err != nil {
		return nil, err
	}
	return s.api(strings.TrimSpace(token))
}

func (s *Stack) api(token string) (*API, error) {
	client, err := s.HTTP(token)
	if err != nil {
		return nil, err
	}
	return &API{http: client}, nil
}

// Close ends the connections.
func (a *API) Close() { a.http.CloseIdleConnections() }

// Get reads an object.
func (a *API) Get(ctx context.Context, path string, into any) error {
	body, err := a.open(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return errors.Join(json.NewDecoder(body).Decode(into), body.Close())
}

// Patch patches an object. The patch is encoded as JSON. If the API server rejects it, the error is
// a *Rejection.
func (a *API) Patch(ctx context.Context, path, kind string, patch any) error {
	return a.send(ctx, http.MethodPatch, path, kind, patch)
}

// Create creates an object. If the API server rejects it, the error is a *Rejection.
func (a *API) Create(ctx context.Context, path string, object any) error {
	return a.send(ctx, http.MethodPost, path, "application/json", object)
}

func (a *API) send(ctx context.Context, method, path, kind string, object any) error {
	b, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode the object for %s: %w", path, err)
	}
	body, err := a.open(ctx, method, path, kind, strings.NewReader(string(b)))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

// open sends a request and returns the body of a successful response.
func (a *API) open(ctx context.Context, method, path, kind string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "outrigger-e2e")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp.Body, nil
	}
	rejection := &Rejection{Code: resp.StatusCode}
	err = errors.Join(json.NewDecoder(resp.Body).Decode(rejection), resp.Body.Close())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %s: %w", method, path, resp.Status, err)
	}
	return nil, fmt.Errorf("%s %s: %w", method, path, rejection)
}
