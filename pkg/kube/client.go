// Package kube is an agent's view of the API server: its own Node, and nothing
// else.
//
// It uses client-go without the typed clientset, which alone would cost an
// agent more memory than all the rest of it.
package kube

import (
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// ErrNotInCluster is returned by New for a process that runs in no pod and was
// given no kubeconfig.
var ErrNotInCluster = errors.New("this process runs in no pod of a cluster, and no kubeconfig is given")

// Config says how to reach the API server.
type Config struct {
	// Kubeconfig is a file. Empty: the service account of the pod.
	Kubeconfig string
	// Node is the name of the Node that this process runs on.
	Node string
	// Agent names the program to the API server and in Events: "device-plugin".
	Agent string
	Log   *slog.Logger
}

// Client talks to the API server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	core rest.Interface
	meta metadata.Interface
}

// The API server bounds what a client may ask; an agent asks next to nothing.
const (
	qps   = 5
	burst = 10
)

// New returns a Client. It does not connect.
func New(cfg Config) (*Client, error) {
	rc, err := cfg.REST()
	if err != nil {
		return nil, err
	}
	if cfg.Node == "" {
		return nil, errors.New("talk to the API server: the name of this node is not known: set NODE_NAME, from spec.nodeName")
	}
	meta, err := metadata.NewForConfig(metadata.ConfigFor(rc))
	if err != nil {
		return nil, fmt.Errorf("talk to the API server: %w", err)
	}
	core, err := coreClient(rc)
	if err != nil {
		return nil, fmt.Errorf("talk to the API server: %w", err)
	}
	return &Client{cfg: cfg, core: core, meta: meta}, nil
}

// REST returns what client-go connects with. From then on the library logs into
// our log.
func (c Config) REST() (*rest.Config, error) {
	rc, err := load(c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("talk to the API server: %w", err)
	}
	rc.UserAgent = c.Agent
	rc.QPS, rc.Burst = qps, burst
	klog.SetSlogLogger(c.Log.With("library", "client-go"))
	return rc, nil
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
		return nil, ErrNotInCluster
	}
	return rc, err
}

// coreClient returns a client for the API group "" that sends and takes JSON
// which its caller has encoded.
func coreClient(rc *rest.Config) (rest.Interface, error) {
	rc = rest.CopyConfig(rc)
	rc.GroupVersion = &schema.GroupVersion{Version: "v1"}
	rc.APIPath = "/api"
	rc.ContentType = runtime.ContentTypeJSON
	rc.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return rest.RESTClientFor(rc)
}
