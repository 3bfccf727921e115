package dashboards_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/test/e2e/dashboards"
)

// job is a job of Prometheus, with the labels that service discovery gives each target.
type job struct {
	JobName       string   `json:"job_name"`
	HonorLabels   bool     `json:"honor_labels"`
	StaticConfigs []target `json:"static_configs"`
}

type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// prometheus starts a Prometheus that scrapes each second.
func prometheus(t *testing.T, rules any, jobs ...job) dashboards.Prometheus {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, value any) string {
		text, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("prometheus.yaml", map[string]any{
		"global":         map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{write("rules.yaml", map[string]any{"groups": rules})},
		"scrape_configs": jobs,
	})
	listen := free(t)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "prometheus", "--config.file="+config, "--log.level=warn",
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	agenttest.Start(t, cmd)
	url := "http://" + listen
	agenttest.Poll(t, "Prometheus", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/-/ready", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return dashboards.Prometheus(url)
}

// free returns an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
