package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/client-go/dynamic"

	"outrigger.dev/orchestrator/internal/apitest"
	"outrigger.dev/orchestrator/internal/lease"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestOneOfTwoHoldsTheLease(t *testing.T) {
	client, err := dynamic.NewForConfig(apitest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	first := lease.New(client, "default", "outrigger", "first", log)
	second := lease.New(client, "default", "outrigger", "second", log)
	// The namespace default is there a moment after the API server.
	if err := first.Acquire(agenttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the second got the Lease that the first holds: %v", err)
	}
	if err := first.Hold(ctx); err != nil {
		t.Fatalf("give back: %v", err)
	}
	if err := second.Acquire(agenttest.Deadline(t)); err != nil {
		t.Fatalf("the second did not get the Lease that the first gave back: %v", err)
	}
}
