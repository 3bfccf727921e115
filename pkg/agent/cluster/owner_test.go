package cluster_test

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
)

// apiServer answers each request for the DaemonSet gpus/mine.
func apiServer(t *testing.T, status int, answer string) *cluster.API {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/apps/v1/namespaces/gpus/daemonsets/mine" {
			t.Errorf("it asks for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"token": []byte("t"), "ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kube.New(kube.Config{Server: s.URL, Dir: dir, Node: "n", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster.API{Client: client}
}

func TestAnAgentWithdrawsOnlyIfItsDaemonSetIsDeleted(t *testing.T) {
	tests := map[string]struct {
		status int
		answer string
		name   string
		want   bool
	}{
		"it is there":             {http.StatusOK, `{"metadata": {"name": "mine"}}`, "mine", false},
		"it is being deleted":     {http.StatusOK, `{"metadata": {"deletionTimestamp": "2026-11-22T12:00:00Z"}}`, "mine", true},
		"it is gone":              {http.StatusNotFound, `{"kind": "Status", "code": 404}`, "mine", true},
		"the rights are gone":     {http.StatusForbidden, `{"kind": "Status", "code": 403}`, "mine", false},
		"the API server fails":    {http.StatusInternalServerError, "", "mine", false},
		"its name is not known":   {http.StatusNotFound, `{"kind": "Status", "code": 404}`, "", false},
		"there is no API server ": {0, "", "mine", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var api *cluster.API
			if tc.status != 0 {
				api = apiServer(t, tc.status, tc.answer)
			}
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			got := false
			app := &cli.App{
				Flags: []cli.Flag{cluster.OwnerFlag(), &cli.StringFlag{Name: "namespace"}},
				Action: func(c *cli.Context) error {
					cluster.OwnerOf(c, api, slog.New(slog.DiscardHandler)).IfDeleted(stopped, func(ctx context.Context) error {
						got = true
						return ctx.Err()
					})
					return nil
				},
			}
			if err := app.Run([]string{"test-agent", "--namespace=gpus", "--daemonset-name=" + tc.name}); err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("it withdraws: %t, want %t", got, tc.want)
			}
		})
	}
}
