package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/cluster"
)

func TestOpenSaysWhichKubeconfigIsMissing(t *testing.T) {
	home := t.TempDir()
	bad := filepath.Join(home, "bad")
	if err := os.WriteFile(bad, []byte("x: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	noKubeconfig := filepath.Join(home, "values.yaml")
	if err := os.WriteFile(noKubeconfig, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		noKubeconfig:                  noKubeconfig + " names no cluster",
		"":                            "no cluster is known",
		filepath.Join(home, "absent"): "no such file",
		bad:                           "error loading config file",
		home + "/a:" + home + "/b":    "there is no " + home + "/a, " + home + "/b;",
	} {
		_, err := cluster.Open(cluster.Kubeconfig{Path: file}, "test")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "; set --kubeconfig") {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func TestOpenReadsAListOfKubeconfigs(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "b")
	text := `{"current-context": "a", "clusters": [{"name": "a", "cluster": {"server": "https://b:1"}}], "contexts": [{"name": "a", "context": {"cluster": "a"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := cluster.Open(cluster.Kubeconfig{Path: filepath.Join(home, "absent") + ":" + file}, "test")
	if err != nil || client.REST.Host != "https://b:1" {
		t.Errorf("got %+v, %v", client, err)
	}
	if _, err := cluster.Open(cluster.Kubeconfig{Path: file, Context: "b"}, "test"); err == nil || !strings.Contains(err.Error(), `context "b" does not exist`) {
		t.Errorf("another context: %v", err)
	}
}

func TestAnAPIServerThatDoesNotAnswerIsNamed(t *testing.T) {
	asked := make(chan struct{}, 1)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer hangs.Close()
	client, err := cluster.New(&rest.Config{Host: hangs.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(context.Context) error{
		"its version": func(ctx context.Context) error { _, err := client.Version(ctx); return err },
		"its kinds":   func(ctx context.Context) error { _, _, err := client.Mapping(ctx, cluster.PolicyRef("")); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		if err := ask(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the end of the context", name, err)
		}
		cancel()
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	client, err = cluster.New(&rest.Config{Host: gone.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Version(t.Context())
	want := "reach the API server " + gone.URL + ": dial tcp "
	if away := (*cluster.UnreachableError)(nil); !errors.As(err, &away) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
