package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/cluster/cluster"
)

const (
	// namespace and account are the service account of the program. The audit log identifies the
	// program's requests by it.
	namespace = "outrigger-bench"
	account   = "program"
	// creators is the number of concurrent requests that create nodes.
	creators = 16
)

// scene is a cluster with GPU nodes and an account for the program.
type scene struct {
	cluster           *cluster.Cluster
	client            *http.Client
	dir               string
	nodes, neverReady int
	progress          io.Writer
}

func newScene(c *cluster.Cluster, cfg Config, dir string) (*scene, error) {
	client, err := c.HTTP("")
	if err != nil {
		return nil, err
	}
	return &scene{cluster: c, client: client, dir: dir, nodes: cfg.Nodes, neverReady: cfg.NeverReady, progress: cfg.Progress}, nil
}

func (s *scene) close() { s.client.CloseIdleConnections() }

// kubeconfig returns the path of the program's kubeconfig.
func (s *scene) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// prepare creates the program's account and the nodes, and waits until they are ready.
func (s *scene) prepare(ctx context.Context) error {
	if err := s.createAccount(ctx); err != nil {
		return err
	}
	begin := time.Now()
	if err := s.createNodes(ctx); err != nil {
		return err
	}
	for {
		ready, err := s.readyNodes(ctx)
		if err != nil {
			return err
		}
		if ready == s.nodes {
			break
		}
		if !pace.Pause(ctx, time.Second) {
			return fmt.Errorf("wait for nodes: %d of %d are ready: %w", ready, s.nodes, context.Cause(ctx))
		}
	}
	fmt.Fprintf(s.progress, "%d nodes ready after %.1f s\n", s.nodes, time.Since(begin).Seconds())
	return nil
}

// createAccount creates a service account with all permissions, and its kubeconfig.
func (s *scene) createAccount(ctx context.Context) error {
	for _, args := range [][]string{
		{"create", "namespace", namespace},
		{"create", "serviceaccount", account, "--namespace", namespace},
		{"create", "clusterrolebinding", namespace, "--clusterrole", "cluster-admin", "--serviceaccount", namespace + ":" + account},
	} {
		if _, err := s.cluster.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	token, err := s.cluster.Kubectl(ctx, "create", "token", account, "--namespace", namespace, "--duration", "24h")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(s.cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig of the administrator: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read kubeconfig of the administrator: %w", err)
	}
	config["users"] = []any{map[string]any{"name": account, "user": map[string]any{"token": string(bytes.TrimSpace([]byte(token)))}}}
	if contexts, ok := config["contexts"].([]any); ok && len(contexts) == 1 {
		config["contexts"] = []any{map[string]any{"name": account, "context": map[string]any{"cluster": "outrigger", "user": account}}}
	}
	config["current-context"] = account
	if text, err = yaml.Marshal(config); err != nil {
		return fmt.Errorf("write kubeconfig of the program: %w", err)
	}
	return hostfs.WriteFile(s.kubeconfig(), text, 0o600)
}

// createNodes creates the nodes. The first ones are the nodes whose pods never get ready.
func (s *scene) createNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range s.nodes {
		group.Go(func() error {
			return s.do(ctx, http.MethodPost, "/api/v1/nodes", node(nodeName(i, s.neverReady)), nil)
		})
	}
	return group.Wait()
}

// nodeName returns the name of the node i. The first neverReady nodes never have a ready pod.
func nodeName(i, neverReady int) string {
	if i < neverReady {
		return cluster.NeverReady + fmt.Sprintf("%05d", i)
	}
	return fmt.Sprintf("gpu-%05d", i)
}

// node returns a Node with eight GPUs, which kwok manages.
func node(name string) map[string]any {
	room := map[string]any{"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
	return map[string]any{
		"metadata": map[string]any{
			"name":        name,
			"annotations": map[string]any{"kwok.x-k8s.io/node": "fake"},
			"labels": map[string]any{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true",
			},
		},
		"status": map[string]any{"allocatable": room, "capacity": room},
	}
}

func (s *scene) readyNodes(ctx context.Context) (int, error) {
	var nodes list[struct {
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}]
	// With resourceVersion=0, the API server answers from its cache.
	if err := s.do(ctx, http.MethodGet, "/api/v1/nodes?resourceVersion=0", nil, &nodes); err != nil {
		return 0, err
	}
	ready := 0
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready, nil
}

// apply applies a manifest. It retries for a minute, because the program may have to define the
// kinds first.
func (s *scene) apply(ctx context.Context, manifest string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		cmd := s.cluster.KubectlCommand(ctx, "apply", "--server-side", "-f", "-")
		cmd.Stdin = strings.NewReader(manifest)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if !pace.Pause(ctx, time.Second) {
			return fmt.Errorf("apply manifest: %w: %s", err, out)
		}
	}
}

// requests returns the counts of the program's requests from begin to end.
func (s *scene) requests(begin, end time.Time) (count, error) {
	all, err := s.cluster.Requests(namespace, account, begin)
	if err != nil {
		return count{}, err
	}
	return countRequests(all, begin, end), nil
}

// do sends a request with a JSON body, and decodes the response.
func (s *scene) do(ctx context.Context, method, path string, body, into any) (err error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, path, &sent)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
