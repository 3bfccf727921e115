package draapp_test

import (
	"os"
	"path/filepath"
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
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("kubeconfig"), []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "dra") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	p := agenttest.Start(t, agenttest.Command(t, n, "--node-name", "n1", "--kubeconfig", path("kubeconfig"), "--listen", "127.0.0.1:0",
		"--run-root", dir, "--cdi-root", path("cdi"), "--kubelet-plugins-dir", sockets, "--kubelet-registry-dir", sockets))
	p.Said("serving")
	for _, want := range []string{"register with the kubelet", "changes on the API server are not seen: "} {
		agenttest.Poll(t, "/readyz to say "+want, func() bool { return strings.Contains(p.Get("/readyz"), want) })
	}
}
