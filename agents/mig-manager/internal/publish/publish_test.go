package publish_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/agents/mig-manager/internal/publish"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube/apitest"
)

// configMap has the fields of a ConfigMap that the agent writes.
type configMap struct {
	Metadata struct {
		Name            string            `json:"name"`
		Labels          map[string]string `json:"labels"`
		OwnerReferences []struct {
			Kind, Name, UID string
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// node is the GPUs of a node, which change.
type node struct {
	mu   sync.Mutex
	gpus []mig.GPU
}

func (n *node) set(t *testing.T, board string) (text string) {
	t.Helper()
	product, ok := boards.Named(board)
	if !ok {
		t.Fatalf("no board %s", board)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gpus = []mig.GPU{{Capable: true, Board: product.Board}}
	config, err := migconfig.Generate(n.gpus)
	assert.NilError(t, err)
	data, err := config.YAML()
	assert.NilError(t, err)
	return string(data)
}

func (n *node) read(context.Context) ([]mig.GPU, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gpus, nil
}

func TestGeneratedConfigsArePublished(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, nil)
	name := "agent-" + api.Name
	var pod struct{ Metadata struct{ UID string } }
	api.Do(http.MethodPost, "/api/v1/namespaces/default/pods", map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "none"}}},
	}, &pod)

	var n node
	want := n.set(t, "h100-80")
	p := publish.New(publish.Config{
		Client: apitest.Client(t, api.Config, api.Name, "mig-manager"), Namespace: "default", Pod: name, Node: api.Name,
		GPUs: n.read, Log: slog.New(slog.DiscardHandler),
	})
	api.Unavailable(1)
	agenttest.Run(t, p.Run)
	published := func(want string) configMap {
		t.Helper()
		var got configMap
		agenttest.Poll(t, "the ConfigMap", func() bool {
			var list struct{ Items []configMap }
			api.Do(http.MethodGet, "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3D"+api.Name+"-mig-config", nil, &list)
			if len(list.Items) == 0 {
				return false
			}
			got = list.Items[0]
			return got.Data["config.yaml"] == want
		})
		return got
	}
	got := published(want)
	labels := map[string]string{"app.kubernetes.io/component": "nvidia-mig-manager", "nvidia.com/node-name": api.Name}
	if d := cmp.Diff(labels, got.Metadata.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if owners := got.Metadata.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Pod" || owners[0].Name != name || owners[0].UID != pod.Metadata.UID {
		t.Errorf("owners %+v, want the pod %s", owners, name)
	}

	// GPUs that are the same write nothing, and other GPUs write once.
	before := api.Requests()["patch configmaps"]
	p.Changed()
	want = n.set(t, "a100-40")
	p.Changed()
	published(want)
	if after := api.Requests()["patch configmaps"]; after != before+1 {
		t.Errorf("%d writes, want 1", after-before)
	}
}

// A Publisher that is not configured does nothing.
func TestNoPublisher(t *testing.T) {
	var p *publish.Publisher
	p.Changed()
	assert.NilError(t, p.Run(t.Context()))
}
