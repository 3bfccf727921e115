// Package kube is an agent's view of the API server: its own Node, its own pod,
// what it publishes about the node, and nothing else.
//
// It speaks the few requests that this takes over net/http, which every agent
// links for its metrics. client-go would add some 6 MB to the memory of each
// agent on each node; package typed has it for the one that needs it.
//
// What it writes it writes by server-side apply, as the field manager
// Config.Agent: it owns exactly what it named last, and what others own stays.
package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	// Agent names the program to the API server, as the field manager of what it
	// applies, and in Events: "device-plugin".
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

// connection is a connection to the API server with the token and the authority
// as they are now: both are renewed while a pod runs. So none is kept for the
// next call: an agent writes seldom, and what it would save is one handshake.
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
