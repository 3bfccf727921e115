package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/dcgm-exporter/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = agent.Exec(t.Context(), app.App(), append([]string{"dcgm-exporter", "--log-level=error"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestAppIsValid(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(app.App()))
	assert.NilError(t, agenttest.CheckHelp(app.App()))
}

func TestHelp(t *testing.T) {
	code, out, errs := run(t, "--help")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	golden.Assert(t, out, "help.golden")
}

func TestBadFlags(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "list.csv")
	assert.NilError(t, os.WriteFile(bad, []byte("DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_DEV_NONE, gauge, t\n"), 0o600))
	web := filepath.Join(t.TempDir(), "web.yaml")
	assert.NilError(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: /none}\n"), 0o600))
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, syscall.Mkfifo(pipe, 0o600))
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"--collect-interval=50", 2, []string{"collect-interval", `"50"`, "200 to 3600000"}},
		{"--devices=x", 2, []string{"devices", `"x"`, "g[:LIST]"}},
		{"--devices=g:3-1", 2, []string{"devices"}},
		{"--devices=g:0-99999", 2, []string{"devices"}},
		{"--metric-names=new", 2, []string{"metric-names", "legacy", "dcgm47", "both"}},
		{"--hostname-label=host", 2, []string{"hostname-label", "Hostname"}},
		{"--mig-gpu-metrics=sum", 2, []string{"mig-gpu-metrics", "duplicate", "dedupe"}},
		{"--xid-count-window-size=0", 2, []string{"xid-count-window-size", "above 0"}},
		{"--gpu-source=file:/x", 2, []string{"gpu-source", "nvml"}},
		{"--collectors=/none/list.csv", 1, []string{"list of metrics", "/none/list.csv", "DCGM_EXPORTER_COLLECTORS"}},
		{"--collectors=/dev/zero", 1, []string{"list of metrics", "/dev/zero"}},
		{"--strict --collectors=" + bad, 1, []string{bad, "line 2", "DCGM_FI_DEV_NONE", "--strict"}},
		{"--web-config-file=" + pipe, 2, []string{"web-config-file", "named pipe"}},
		{"--web-config-file=/none", 2, []string{"web-config-file", "/none"}},
		{"--web-config-file=" + web, 2, []string{"web-config-file", web}},
		{"--kubernetes --kubernetes-enable-pod-labels --kubernetes-pod-label-allowlist-regex=(", 2, []string{"kubernetes-pod-label-allowlist-regex"}},
		{"--kubernetes --kubernetes-enable-pod-uid", 2, []string{"node-name"}},
	} {
		code, _, errs := run(t, append(strings.Fields(c.args), "--listen=")...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.args, code, c.code, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q does not name %q", c.args, errs, want)
			}
		}
	}
}
