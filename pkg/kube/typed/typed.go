// Package typed returns client-go's typed clientset, for a program whose libraries
// take it. It links the whole API, so other programs use package kube (ADR 14).
package typed

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2" //nolint:depguard // client-go logs there, and gets our log

	"outrigger.dev/pkg/kube"
)

// Interface is the clientset.
type Interface = kubernetes.Interface

// Client is the clientset, which knows whether the API server answers.
type Client struct {
	Interface
	failures kube.Failures
}

// Failing returns why the API server does not do what is asked about the resource
// Config.Followed, once that has lasted for 5 s, and nil while it does. It is for /readyz.
func (c *Client) Failing() error { return c.failures.Err() }

// Config describes how to reach the API server.
type Config struct {
	// Kubeconfig is a file. If empty, the pod's service account is used.
	Kubeconfig string
	// Agent names the program to the API server.
	Agent string
	// Followed is the resource that the program's libraries watch and write:
	// "resourceslices". It may be empty.
	Followed string
	Log      *slog.Logger
}

// New returns a clientset, and makes client-go log to Log. It does not connect. It
// returns kube.ErrNotInCluster for a process that runs in no pod and has no
// kubeconfig.
func New(cfg Config) (*Client, error) {
	rc, err := load(cfg.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	rc.UserAgent = cfg.Agent
	klog.SetSlogLogger(cfg.Log.With("library", "client-go"))
	c := &Client{}
	if cfg.Followed != "" {
		rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return follower{next: next, path: "/" + cfg.Followed, failures: &c.failures}
		})
	}
	if c.Interface, err = kubernetes.NewForConfig(rc); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, nil
}

func load(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
		}
		return rc, nil
	}
	rc, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, kube.ErrNotInCluster
	}
	return rc, err
}
