package agent

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2" // the libraries of Kubernetes log through klog

	"outrigger.dev/pkg/text"
)

// Logger returns the logger that --log-format and --log-level describe. It writes to standard
// error. The libraries of Kubernetes log to it as well.
func Logger(c *cli.Context) *slog.Logger {
	s, _ := c.Context.Value(settingsKey{}).(*settings)
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.logLevel)) // the flag has checked the value
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: logAttr}
	log := slog.New(slog.NewTextHandler(c.App.ErrWriter, opts))
	if s.logFormat == "json" {
		log = slog.New(slog.NewJSONHandler(c.App.ErrWriter, opts))
	}
	// The Kubernetes libraries have one logger in a process, and tests run several agents in one
	// process.
	if c.App.ErrWriter == os.Stderr {
		klog.SetSlogLogger(log.With("library", "client-go"))
	}
	return log
}

// Unlogged returns a context whose callees in the libraries of Kubernetes do not log. The caller
// reports their errors instead.
func Unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// logAttr shortens the texts of a log line, because an error may quote long output of another
// program. It writes a duration as 1s, because the JSON handler would write a number of
// nanoseconds. It rounds durations: a pause with jitter is 1.932s, not 1.932034838s.
func logAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Duration:
		a.Value = slog.StringValue(rounded(v).String())
	case string:
		if len(v) > text.MaxLine {
			a.Value = slog.StringValue(text.Cut(v, text.MaxLine))
		}
	case error:
		if msg := v.Error(); len(msg) > text.MaxLine {
			a.Value = slog.StringValue(text.Cut(msg, text.MaxLine))
		}
	}
	return a
}

// rounded returns a duration with at most three digits after the point.
func rounded(d time.Duration) time.Duration {
	switch size := d.Abs(); {
	case size >= time.Second:
		return d.Round(time.Millisecond)
	case size >= time.Millisecond:
		return d.Round(time.Microsecond)
	default:
		return d
	}
}
