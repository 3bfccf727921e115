package pace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
)

func TestSignalsFallTogether(t *testing.T) {
	c := make(chan struct{}, 1)
	pace.Signal(c)
	pace.Signal(c)
	if len(c) != 1 {
		t.Fatalf("%d signals wait, want 1", len(c))
	}
	pace.Drain(c)
	pace.Drain(c)
	if len(c) != 0 {
		t.Errorf("%d signals wait after Drain, want none", len(c))
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !pace.Pause(ctx, 0) {
		t.Error("Pause() = false, want true after its time")
	}
	cancel()
	if pace.Pause(ctx, time.Hour) {
		t.Error("Pause() = true, want false after the end of its context")
	}
}

func TestAReaderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := pace.Reader(ctx, strings.NewReader("abc"))
	p := make([]byte, 2)
	if n, err := r.Read(p); n != 2 || err != nil {
		t.Errorf("Read() = %d, %v", n, err)
	}
	cancel()
	if n, err := r.Read(p); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Read() = %d, %v after the end of its context", n, err)
	}
}

func TestBackoffDoubles(t *testing.T) {
	b := pace.Backoff{First: 2, Most: 9}
	var got []time.Duration
	for range 4 {
		got = append(got, b.Next())
	}
	b.Reset()
	got = append(got, b.Next())
	if want := []time.Duration{2, 4, 8, 9, 2}; !slices.Equal(got, want) {
		t.Errorf("times between tries %v, want %v", got, want)
	}
}
