package app_test

import (
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
)

func TestAppIsSound(t *testing.T) {
	if err := agent.CheckApp(app.App()); err != nil {
		t.Error(err)
	}
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
