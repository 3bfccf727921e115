package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// TestLongTexts has the texts of other programs, whose size nobody limits.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("x\n", 200_000)
	app := testApp()
	app.New = func(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		log.Warn("an error", "err", errors.New(long))
		log.Warn("in a group", slog.Group("of", "text", long, "err", errors.New("short")))
		return &agent.Agent{Parts: []agent.Part{{Name: "fails", Run: func(context.Context) error { return errors.New(long) }}}}, nil
	}
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			var out, errs strings.Builder
			if code := agent.Exec(t.Context(), app, []string{"x", "--log-format", format}, &out, &errs); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for line := range strings.SplitSeq(errs.String(), "\n") {
				if len(line) > 16<<10 {
					t.Errorf("a line has %d bytes: %.100s", len(line), line)
				}
			}
			if !strings.Contains(errs.String(), "short") {
				t.Errorf("no short error in %.1000s", errs.String())
			}
		})
	}
	app.New = func(*cli.Context, *slog.Logger) (*agent.Agent, error) { return nil, errors.New(long) }
	var out, errs strings.Builder
	if code := agent.Exec(t.Context(), app, []string{"x"}, &out, &errs); code != 1 || errs.Len() > 16<<10 || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("exit code %d with an error of %d bytes", code, errs.Len())
	}
}

// TestDurations logs pauses with jitter, which have nine digits after the point.
func TestDurations(t *testing.T) {
	app := testApp()
	app.New = func(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		log.Warn("retrying", "in", 1932034838*time.Nanosecond, "took", 2034838*time.Nanosecond, "every", time.Minute, "least", 999*time.Nanosecond)
		return nil, errors.New("no more")
	}
	for format, want := range map[string]string{
		"json": `"in":"1.932s","took":"2.035ms","every":"1m0s","least":"999ns"`,
		"text": "in=1.932s took=2.035ms every=1m0s least=999ns",
	} {
		var out, errs strings.Builder
		agent.Exec(t.Context(), app, []string{"x", "--log-format", format}, &out, &errs)
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%s: want %s in %s", format, want, errs.String())
		}
	}
}
