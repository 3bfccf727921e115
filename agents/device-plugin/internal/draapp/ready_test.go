package draapp_test

import (
	"strings"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// kubeconfig is for an API server at which nobody listens.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: t}}]
current-context: a
`

// Without the API server no claim gets a device, and the log alone would say so.
func TestReadinessSaysThatTheAPIServerIsAway(t *testing.T) {
	n := simtest.New(t, "--gpus", "1")
	p := startUnconnected(t, n, t.TempDir())
	p.Said("serving")
	for _, want := range []string{"register with the kubelet", "changes on the API server are not seen: "} {
		agenttest.Poll(t, "/readyz to say "+want, func() bool { return strings.Contains(p.Get("/readyz"), want) })
	}
}
