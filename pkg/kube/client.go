// Package kube is an agent's client of the API server. It reads, applies, patches, creates and
// watches objects of any resource, decodes them into the caller's types, and sends Events about the
// agent's Node.
//
// It uses client-go's REST client and reflector without the types of the API (ADR 14 has their
// cost). A program whose libraries need client-go's types makes a separate client with Config.REST.
package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNotInCluster is returned by New if the process does not run in a pod.
var ErrNotInCluster = errors.New("this process does not run in a pod")

// ServiceAccountDir is the folder where the kubelet mounts a pod's token and the certificate of
// the authority that signs the API server's certificate.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

const (
	// answerLimit is the time limit of a request and its answer. It does not apply to a watch.
	answerLimit = 30 * time.Second
	// connectLimit is the time limit of a connection attempt. client-go pings a connection that is
	// silent for 30 s and waits 15 s for the answer. A watch therefore notices a dead or hanging
	// API server within 45 s, and reports it within a minute.
	connectLimit = 10 * time.Second
	// The rate limit only protects the API server from an unexpected loop.
	requestsPerSecond = 20
	requestsAtOnce    = 50
)

// Config describes how to reach the API server.
type Config struct {
	// Kubeconfig is the path of a kubeconfig. If empty, the pod's service account is used.
	Kubeconfig string
	// Server is the URL of the API server. If empty, it is derived from the variables
	// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which the kubelet sets.
	Server string
	// Dir is the folder with the files "token" and "ca.crt". If empty, it is ServiceAccountDir.
	// Both files are read again when they change.
	Dir string
	// Node is the name of the Node that this process runs on.
	Node string
	// Agent is the name of the program. It is the field manager of the objects that the client
	// writes, and the source of its Events. Example: "device-plugin".
	Agent string
	Log   *slog.Logger
}

// REST returns the configuration in the form of client-go. It returns ErrNotInCluster for a process
// that does not run in a pod and has no kubeconfig.
func (c Config) REST() (*rest.Config, error) {
	rc, err := c.load()
	if err != nil {
		return nil, err
	}
	rc.UserAgent, rc.QPS, rc.Burst = c.Agent, requestsPerSecond, requestsAtOnce
	rc.WarningHandler = rest.NoWarnings{}
	rc.Dial = (&net.Dialer{Timeout: connectLimit}).DialContext
	return rc, nil
}

func (c Config) load() (*rest.Config, error) {
	if c.Kubeconfig != "" {
		rc, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig %s: %w", c.Kubeconfig, err)
		}
		return rc, nil
	}
	if c.Server == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, ErrNotInCluster
		}
		c.Server = "https://" + net.JoinHostPort(host, port)
	}
	if c.Dir == "" {
		c.Dir = ServiceAccountDir
	}
	return &rest.Config{
		Host: c.Server, BearerTokenFile: filepath.Join(c.Dir, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.Dir, "ca.crt")},
	}, nil
}

// Client is a client of the API server. It is safe for concurrent use.
type Client struct {
	cfg     Config
	api     rest.Interface
	failing Failures
}

// New returns a Client. It does not connect.
func New(cfg Config) (*Client, error) {
	rc, err := cfg.REST()
	if err != nil {
		return nil, err
	}
	if cfg.Node == "" {
		return nil, errors.New("connect to the API server: the name of this node is unknown: set NODE_NAME, from spec.nodeName")
	}
	return connect(cfg, rc)
}

func connect(cfg Config, rc *rest.Config) (*Client, error) {
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return limiter{next} })
	api, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(rc))
	if err != nil {
		return nil, fmt.Errorf("read the account of the pod: %w (is automountServiceAccountToken off?)", err)
	}
	return &Client{cfg: cfg, api: api}, nil
}

// Node returns the Object of the Node that the process runs on.
func (c *Client) Node() Object {
	return Object{API: "v1", Resource: "nodes", Name: c.cfg.Node}
}

// Agent returns Config.Agent, the field manager of the objects that the client writes.
func (c *Client) Agent() string { return c.cfg.Agent }
