package cluster_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	for file, want := range map[string]string{
		"":                            "no cluster is known",
		filepath.Join(home, "absent"): "no such file",
		bad:                           "error loading config file",
	} {
		_, err := cluster.Open(file, "test", slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "; set --kubeconfig") {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}
