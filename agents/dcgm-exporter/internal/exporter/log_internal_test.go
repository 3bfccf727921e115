package exporter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/kernellog"
)

// A log that cannot be read is tried again, and the log of the agent says so once.
func TestTheKernelsLogIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		tries := 0
		e := New(Config{Log: slog.New(slog.NewTextHandler(&text, nil))})
		e.cfg.WatchLog = func(ctx context.Context, deliver func(kernellog.XID)) error {
			if tries++; tries < 4 {
				return errors.New("open /dev/kmsg: too many open files")
			}
			deliver(kernellog.XID{Code: 79})
			<-ctx.Done()
			return nil
		}
		close(e.found)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.watchLog(ctx) }()
		if x := <-e.xids; x.Code != 79 {
			t.Errorf("XID %d, want 79", x.Code)
		}
		cancel()
		assert.NilError(t, <-ended)
		if n := strings.Count(text.String(), "level=WARN"); n != 1 || !strings.Contains(text.String(), "79, 119 and 120") {
			t.Errorf("the log has %d warnings, want one that names the XIDs:\n%s", n, text.String())
		}
	})
}
