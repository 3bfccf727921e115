package app

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

func TestUpRejectsAClusterWithoutNodes(t *testing.T) {
	err := cmdline.Run(t.Context(), &cli.App{Name: "cluster", Commands: []*cli.Command{upCommand()}}, []string{"cluster", "up", "--nodes=0", "--bin-dir=" + t.TempDir()})
	if want := `flag --nodes (environment variable NODES): invalid value "0": must be at least 1`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("up: %v, want %q", err, want)
	}
}
