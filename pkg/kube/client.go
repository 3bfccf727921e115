// Package kube is an agent's client of the API server. It reads, applies, patches,
// creates and watches objects of any resource, decoded into the caller's types, and
// sends Events about the agent's Node.
//
// The client uses HTTP/2 through net/http. ADR 14 compares its cost with that of
// client-go. A program whose libraries need client-go uses package typed.
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
	"time"
)

// ErrNotInCluster is returned by New if the process does not run in a pod.
var ErrNotInCluster = errors.New("this process runs in no pod of a cluster")

// ServiceAccountDir is where the kubelet mounts a pod's token and the certificate of
// the authority that signs the API server's certificate.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

const (
	// answerLimit bounds a request and its answer, except a watch.
	answerLimit = 30 * time.Second
	// connectLimit bounds each step of making a connection.
	connectLimit = 10 * time.Second
	// A connection that is silent for pingAfter is pinged, and closed if no answer
	// arrives within pingLimit: a watch notices a dead or hanging API server within
	// 45 seconds. client-go has the same limits.
	pingAfter = 30 * time.Second
	pingLimit = 15 * time.Second
)

// Config describes how to reach the API server.
type Config struct {
	// Server is the URL of the API server. If empty, it is derived from the variables
	// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which the kubelet sets.
	Server string
	// Dir is the folder with the files "token" and "ca.crt". If empty, it is
	// ServiceAccountDir.
	Dir string
	// Node is the name of the Node that this process runs on.
	Node string
	// Agent is the name of the program: the field manager of what it writes, and
	// the source of its Events. Example: "device-plugin".
	Agent string
	Log   *slog.Logger
}

// Client is a client of the API server. It is safe for concurrent use.
type Client struct {
	cfg     Config
	ping    http.HTTP2Config
	failing Failures
}

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
		return nil, errors.New("connect to the API server: the name of this node is unknown: set NODE_NAME, from spec.nodeName")
	}
	return &Client{cfg: cfg, ping: http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingLimit}}, nil
}

// Node returns the Object of the Node that the process runs on.
func (c *Client) Node() Object {
	return Object{API: "v1", Resource: "nodes", Name: c.cfg.Node}
}

// connection is a connection to the API server with the current token and
// authority. Both are renewed while a pod runs, so each call and each watch has a
// connection of its own. An agent writes seldom, so that keeping a connection would
// save little more than a handshake.
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
	roots, err := c.authority()
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the API server's authority: %w", err)
	}
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: connectLimit}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:   connectLimit,
		ResponseHeaderTimeout: answerLimit,
		// A header that is too large is part of the error.
		MaxResponseHeaderBytes: maxFailure,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &c.ping,
	}
	return &connection{
		client: &http.Client{Transport: transport}, cfg: c.cfg, token: strings.TrimSpace(string(token)),
	}, nil
}

// authority returns the certificates by which that of the API server is verified.
func (c *Client) authority() (*x509.CertPool, error) {
	path := filepath.Join(c.cfg.Dir, "ca.crt")
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has none", path)
	}
	return roots, nil
}

func (c *connection) close() { c.client.CloseIdleConnections() }
