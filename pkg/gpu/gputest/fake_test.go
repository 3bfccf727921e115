package gputest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestFakeKeepsTheContract(t *testing.T) {
	gputest.TestDriverSource(t, func(*testing.T) gputest.Harness {
		node := gputest.Node(gputest.H100, 8)
		fake := gputest.New(node)
		return gputest.Harness{
			Source: fake, Node: node,
			PostXID: fake.PostXID, Lose: fake.Lose, Heal: fake.Heal, SetDriver: fake.SetDriver,
		}
	})
}

func TestNodesAreValid(t *testing.T) {
	for _, model := range []gputest.Model{gputest.A100, gputest.A10080, gputest.H100, gputest.L4} {
		t.Run(string(model), func(t *testing.T) {
			if _, err := gpu.Decode(encode(t, gputest.Node(model, 16))); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFakeCountsCalls(t *testing.T) {
	fake := gputest.New(gputest.Node(gputest.L4, 1))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fake.Watch(ctx, func(gpu.Event) {}) }()
	if err := fake.WaitWatched(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := fake.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := fake.Calls(), (gputest.Calls{Snapshot: 1, Watch: 1}); got != want {
		t.Errorf("Calls() = %+v, want %+v", got, want)
	}
}

func TestFakeFailsAsTold(t *testing.T) {
	fake := gputest.New(gputest.Node(gputest.L4, 1))
	cause := errors.New("out of order")
	fake.SetError(cause)
	if _, err := fake.Snapshot(t.Context()); !errors.Is(err, cause) {
		t.Errorf("Snapshot() = %v, want %v", err, cause)
	}
	fake.SetError(nil)
	if _, err := fake.Snapshot(t.Context()); err != nil {
		t.Errorf("Snapshot() = %v", err)
	}
}

func encode(t *testing.T, node *gpu.Node) []byte {
	t.Helper()
	data, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
