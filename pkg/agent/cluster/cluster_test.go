package cluster_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
)

// run runs an agent whose New is f, and returns its exit code and its error.
func run(t *testing.T, f func(s *cluster.Settings, log *slog.Logger) error, args ...string) (int, string) {
	t.Helper()
	var s cluster.Settings
	app := agent.App{
		Name:  "test-agent",
		Flags: []cli.Flag{s.NodeNameFlag(), s.KubeconfigFlag(), s.EventsFlag("changes")},
		New: func(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
			return &agent.Agent{}, f(&s, log)
		},
	}
	var out, errs bytes.Buffer
	code := agent.Exec(t.Context(), app, append([]string{"test-agent"}, args...), &out, &errs)
	return code, errs.String()
}

// kubeconfig returns the path of a kubeconfig with one cluster.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters":[{"name":"a","cluster":{"server":"http://192.0.2.1"}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`
	assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestOpen(t *testing.T) {
	open := func(s *cluster.Settings, log *slog.Logger) error {
		_, err := s.Open("test-agent", log)
		if errors.Is(err, kube.ErrNotInCluster) {
			return errors.New("outside of a cluster")
		}
		return err
	}
	t.Setenv("NODE_NAME", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if code, text := run(t, open, "--node-name=n"); code != 1 || !strings.Contains(text, "outside of a cluster") {
		t.Errorf("without a cluster: exit code %d: %s", code, text)
	}
	none := filepath.Join(t.TempDir(), "none")
	if code, text := run(t, open, "--node-name=n", "--kubeconfig="+none); code != 2 || !strings.Contains(text, "flag --kubeconfig (environment variable KUBECONFIG): ") || !strings.Contains(text, none) {
		t.Errorf("with a kubeconfig that does not exist: exit code %d: %s", code, text)
	}
	if code, text := run(t, open, "--node-name=n", "--kubeconfig="+kubeconfig(t)); code != 0 {
		t.Errorf("with a kubeconfig outside of a cluster: exit code %d: %s", code, text)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if code, text := run(t, open); code != 2 || !strings.Contains(text, "NODE_NAME") {
		t.Errorf("without the name of the node: exit code %d: %s", code, text)
	}
}

func TestNodeName(t *testing.T) {
	var name string
	read := func(s *cluster.Settings, _ *slog.Logger) (err error) {
		name = s.NodeName
		return s.Named()
	}
	t.Setenv("NODE_NAME", "from-the-pod")
	if code, text := run(t, read); code != 0 || name != "from-the-pod" {
		t.Errorf("NodeName = %q, exit code %d: %s", name, code, text)
	}
	t.Setenv("NODE_NAME", "")
	if code, text := run(t, read); code != 2 || !strings.Contains(text, "flag --node-name is not set") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// A nil API stands for an agent without an API server.
func TestNilAPI(t *testing.T) {
	var api *cluster.API
	assert.NilError(t, api.WatchLabels(t.Context(), func(labels map[string]string) {
		t.Errorf("labels %v, want none", labels)
	}))
	assert.NilError(t, api.Failing())
	api.Event(kube.Event{Reason: "Test"})
	assert.NilError(t, api.Run(t.Context()))
}
