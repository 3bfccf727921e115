package app_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestAppIsValid(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(app.App()))
	assert.NilError(t, agenttest.CheckHelp(app.App()))
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help":         {"--help"},
		"help-explain": {"explain", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, args...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			golden.Assert(t, out, name+".golden")
		})
	}
}

func TestASocketWhosePathIsTooLongIsRejected(t *testing.T) {
	socket := "/" + strings.Repeat("d", 100) + "/kubelet.sock"
	code, _, errs := run(t, "--listen=", "--kubelet-socket="+socket)
	if want := "flag --kubelet-socket (environment variable KUBELET_SOCKET): path " + socket + " has 114 bytes, but the path of a unix socket has at most 107: use a shorter path"; code != 2 || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, %q, want 2 and %q", code, errs, want)
	}
}
