package app_test

import (
	"bytes"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/driver-loader/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

const page = "../../../../docs/driver-loader-reference.md"

func TestAppIsValid(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(app.App()))
	assert.NilError(t, agenttest.CheckHelp(app.App()))
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := agent.Exec(t.Context(), app.App(), []string{"driver-loader", "--help"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	golden.Assert(t, out.String(), "help.golden")
}

func TestAPolicyThatCannotBeFollowedIsRejected(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown key": {[]string{"--upgrade-policy", `{"maxParallel": 1}`}, `unknown field "maxParallel"`},
		"no node":        {[]string{"--upgrade-policy", "{}", "--daemonset-name", "x"}, "--node-name is not set"},
		"no DaemonSet":   {[]string{"--upgrade-policy", `{"maxUnavailable": 1}`, "--node-name", "x"}, "it needs --daemonset-name"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := agent.Exec(t.Context(), app.App(), append([]string{"driver-loader", "plan"}, tc.args...), &out, &errs)
			if code != 2 || !strings.Contains(errs.String(), tc.want) {
				t.Errorf("exit code %d: %s", code, errs.String())
			}
		})
	}
}

func TestAPolicyNeedsACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var out, errs bytes.Buffer
	code := agent.Exec(t.Context(), app.App(), []string{"driver-loader", "--upgrade-policy", "{}", "--node-name", "x", "--daemonset-name", "x", "--listen", ""}, &out, &errs)
	if code != 2 || !strings.Contains(errs.String(), "flag --upgrade-policy (environment variable UPGRADE_POLICY): it needs the API server: this process does not run in a pod") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestFlagsAreDocumented(t *testing.T) { agenttest.Documented(t, app.App(), page) }

func TestGrantsNeedACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var out, errs bytes.Buffer
	code := agent.Exec(t.Context(), app.App(), []string{"driver-loader", "--grant-upgrades", "--node-name", "x", "--listen", ""}, &out, &errs)
	if code != 2 || !strings.Contains(errs.String(), "flag --grant-upgrades (environment variable GRANT_UPGRADES): it needs the API server: this process does not run in a pod") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}
