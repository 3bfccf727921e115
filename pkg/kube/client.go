// Package kube is an agent's view of the API server: its own Node, and nothing
// else.
//
// It speaks the few requests that this takes over net/http, which every agent
// links for its metrics. client-go would add some 6 MB to the memory of each
// agent on each node; package typed has it for the one that needs it.
package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotInCluster is returned by New for a process that runs in no pod.
var ErrNotInCluster = errors.New("this process runs in no pod of a cluster")

// ServiceAccountDir is where the kubelet mounts a pod's token and the
// certificate of the API server's authority.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Config says how to reach the API server.
type Config struct {
	// Server is the URL of the API server. Empty: as the kubelet tells a pod, in
	// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
	Server string
	// Dir holds "token" and "ca.crt". Empty: ServiceAccountDir.
	Dir string
	// Node is the name of the Node that this process runs on.
	Node string
	// Agent names the program to the API server and in Events: "device-plugin".
	Agent string
	Log   *slog.Logger
}

// Client talks to the API server. It is safe for concurrent use.
type Client struct{ cfg Config }

// New returns a Client. It does not connect.
func New(cfg Config) (*Client, error) {
	if cfg.Server == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, ErrNotInCluster
		}
		cfg.Server = "https://" + net.JoinHostPort(host, port)
	}
	if cfg.Dir == "" {
		cfg.Dir = ServiceAccountDir
	}
	if cfg.Node == "" {
		return nil, errors.New("talk to the API server: the name of this node is not known: set NODE_NAME, from spec.nodeName")
	}
	return &Client{cfg: cfg}, nil
}

const (
	// answerLimit bounds a request that is answered at once.
	answerLimit = 30 * time.Second
	// maxAnswer is far above the metadata of a Node.
	maxAnswer = 4 << 20
)

// statusError is an answer that is none of success, with what the API server
// says of it.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the API server answers %d %s: %s", e.code, http.StatusText(e.code), e.message)
}

// connection is a connection to the API server with the token and the authority
// as they are now: both are renewed while a pod runs.
type connection struct {
	client *http.Client
	cfg    Config
	token  string
}

func (c *Client) connect() (*connection, error) {
	token, err := os.ReadFile(filepath.Join(c.cfg.Dir, "token"))
	if err != nil {
		return nil, fmt.Errorf("read the pod's token: %w (is automountServiceAccountToken off?)", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if strings.HasPrefix(c.cfg.Server, "https:") {
		authority, err := os.ReadFile(filepath.Join(c.cfg.Dir, "ca.crt"))
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the API server's authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("read the certificate of the API server's authority: %s has none", filepath.Join(c.cfg.Dir, "ca.crt"))
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &connection{
		client: &http.Client{Transport: transport}, cfg: c.cfg, token: strings.TrimSpace(string(token)),
	}, nil
}

func (c *connection) close() { c.client.CloseIdleConnections() }

// do sends a request and returns the answer's body, which the caller closes.
func (c *connection) do(ctx context.Context, method, path, accept string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.cfg.Server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("User-Agent", c.cfg.Agent)
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, &statusError{code: resp.StatusCode, message: message(resp.Body)}
	}
	return resp.Body, nil
}

// message returns what a Status object says, or the text that is there instead.
func message(body io.Reader) string {
	data, _ := io.ReadAll(io.LimitReader(body, 4<<10)) // what there is will do
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(string(data))
}
