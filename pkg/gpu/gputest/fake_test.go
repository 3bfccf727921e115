package gputest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestNodesAreValid(t *testing.T) {
	for _, model := range models() {
		t.Run(string(model), func(t *testing.T) {
			if _, err := gpu.Decode(encode(t, gputest.Node(model, 16))); err != nil {
				t.Error(err)
			}
		})
	}
}

// nvml.h, nvmlDeviceGetGpuFabricInfo: "For Hopper or newer fully supported
// devices".
func TestGPUsFromHopperOnHaveAFabric(t *testing.T) {
	for _, model := range models() {
		has := model == gputest.H100 || model == gputest.H200 || model == gputest.B200
		if g := gputest.Node(model, 2).GPUs; has != (g[1].Fabric != nil) || has && g[0].Fabric == g[1].Fabric {
			t.Errorf("%s: fabrics %+v and %+v", model, g[0].Fabric, g[1].Fabric)
		}
	}
}

func models() []gputest.Model {
	return []gputest.Model{
		gputest.A30, gputest.A100, gputest.A10080, gputest.H100, gputest.H200, gputest.B200, gputest.L4,
	}
}

func TestFakeCountsCalls(t *testing.T) {
	fake := gputest.New(gputest.Node(gputest.L4, 1))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fake.Watch(ctx, func(gpu.Event) {}) }()
	assert.NilError(t, fake.WaitCalls(t.Context(), func(c gputest.Calls) bool { return c.Watch > 0 }))
	if _, err := fake.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	assert.NilError(t, <-done)
	if got, want := fake.Calls(), (gputest.Calls{Snapshot: 1, Watch: 1}); got != want {
		t.Errorf("Calls() = %+v, want %+v", got, want)
	}
}

func TestFakeFailsAsConfigured(t *testing.T) {
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
	assert.NilError(t, err)
	return data
}
