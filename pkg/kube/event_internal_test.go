package kube

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func TestEventsAreBounded(t *testing.T) {
	var log bytes.Buffer
	e := NewEvents(&Client{cfg: Config{Node: "node1", Log: slog.New(slog.NewTextHandler(&log, nil))}})
	for range 1000 {
		e.Report(Event{Reason: "GPUUnhealthy"})
	}
	if got := len(e.queue); got != eventBurst {
		t.Errorf("%d events are to be sent, want %d", got, eventBurst)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d log lines for 1000 events, want 1:\n%s", n, log.String())
	}
}

func TestAMessageFits(t *testing.T) {
	for name, message := range map[string]string{
		"of two-byte characters":                strings.Repeat("é", 1000),
		"that starts in the middle of such one": "x" + strings.Repeat("é", 1000),
		"with bytes that are no UTF-8":          strings.Repeat("a\xff", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEvents(&Client{cfg: Config{Node: "node1"}})
			body, err := json.Marshal(e.object(timedEvent{Event: Event{Message: message}}))
			assert.NilError(t, err)
			var got struct{ Message string }
			assert.NilError(t, json.Unmarshal(body, &got))
			if len(got.Message) > maxMessage || len(got.Message) < maxMessage-4 || strings.ContainsRune(got.Message, utf8.RuneError) {
				t.Errorf("message has %d bytes: %q", len(got.Message), got.Message)
			}
		})
	}
}
