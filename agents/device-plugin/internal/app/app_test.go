package app_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".golden"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

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
			golden(t, name, out)
		})
	}
}
