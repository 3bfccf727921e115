// Package typed has the typed clientset, for the agent whose libraries ask for
// it. It links the whole API: nothing else should.
package typed

import (
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2" //nolint:depguard // client-go logs there; it is handed our log

	"outrigger.dev/pkg/kube"
)

// Interface is the clientset.
type Interface = kubernetes.Interface

// Config says how to reach the API server.
type Config struct {
	// Kubeconfig is a file. Empty: the service account of the pod.
	Kubeconfig string
	// Agent names the program to the API server.
	Agent string
	Log   *slog.Logger
}

// New returns a clientset. It does not connect. From then on the library logs
// into our log. It returns kube.ErrNotInCluster for a process that runs in no
// pod and was given no kubeconfig.
func New(cfg Config) (Interface, error) {
	rc, err := load(cfg.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("talk to the API server: %w", err)
	}
	rc.UserAgent = cfg.Agent
	klog.SetSlogLogger(cfg.Log.With("library", "client-go"))
	c, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("talk to the API server: %w", err)
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
