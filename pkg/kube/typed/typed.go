// Package typed has the typed clientset, for the agent whose libraries ask for
// it. It links the whole API: nothing else should.
package typed

import (
	"fmt"

	"k8s.io/client-go/kubernetes"

	"outrigger.dev/pkg/kube"
)

// New returns a clientset for the API server that cfg names. It does not
// connect.
func New(cfg kube.Config) (kubernetes.Interface, error) {
	rc, err := cfg.REST()
	if err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("talk to the API server: %w", err)
	}
	return c, nil
}
