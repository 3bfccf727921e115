package apply

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestAResetWithoutStepsIsNoChangeOfTheLayout(t *testing.T) {
	for name, tc := range map[string]struct {
		steps int
		want  string
	}{
		"no steps": {0, "its mig layout is unchanged"},
		"steps":    {2, "changed the mig layout of a gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			tr := &transaction{Applier: &Applier{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
			tr.recordOutcome(&member{fabric: true, steps: tc.steps}, Applied)
			if !strings.Contains(log.String(), tc.want) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("the log is %q, want %q", log.String(), tc.want)
			}
		})
	}
}
