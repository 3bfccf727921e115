package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// configMaps is an API server with one ConfigMap, ml/metrics. It returns its URL, and a folder with
// the account of a pod.
func configMaps(t *testing.T, data map[string]string) (url, account string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/ml/configmaps/metrics" {
			http.Error(w, `{"kind":"Status","code":403,"message":"forbidden"}`, http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "data": data}) // the client has gone
	}))
	t.Cleanup(server.Close)
	return server.URL, agenttest.Account(t, server)
}

// The list of metrics comes from the ConfigMap, and from the file if that cannot be read.
func TestTheListOfAConfigMap(t *testing.T) {
	t.Parallel()
	url, account := configMaps(t, map[string]string{"metrics": "DCGM_FI_DEV_POWER_USAGE, gauge, p\n"})
	file := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(file, []byte("DCGM_FI_DEV_GPU_TEMP, gauge, t\n"), 0o600))
	n := simtest.New(t, "--gpus=1", "--model=l4")
	for name, served := range map[string]string{"ml:metrics": "DCGM_FI_DEV_POWER_USAGE", "ml:other": "DCGM_FI_DEV_GPU_TEMP"} {
		cmd := agenttest.Command(t, n, "--run-root", t.TempDir(), "--listen", "127.0.0.1:0", "--collect-interval=250",
			"--node-name=node1", "-m", name, "--collectors="+file)
		agenttest.InPod(t, cmd, url, account)
		p := &process{Process: agenttest.Start(t, cmd), t: t}
		agenttest.Poll(t, served+" of "+name, func() bool { return len(p.series(served)) == 1 })
		if all := len(p.series("DCGM_FI_DEV_POWER_USAGE")) + len(p.series("DCGM_FI_DEV_GPU_TEMP")); all != 1 {
			t.Errorf("%s: both lists are served", name)
		}
		if name == "ml:other" {
			p.Said("cannot read the list of metrics from the ConfigMap", "403")
		}
	}
}
