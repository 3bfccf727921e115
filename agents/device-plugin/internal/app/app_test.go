package app_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
)

var update = flag.Bool("update", false, "write the golden files")

func TestAppIsSound(t *testing.T) {
	if err := agent.CheckApp(app.App()); err != nil {
		t.Error(err)
	}
}

func TestHelp(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := agent.Exec(t.Context(), app.App(), []string{"device-plugin", "--help"}, &out, &errOut); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	const path = "testdata/help.golden"
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("help (-want +got):\n%s", diff)
	}
}
