package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestResetTakesItsTime(t *testing.T) {
	n := divided(t, "a100-40", 1)
	createMIG(t, n, 0, "7g.40gb")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- n.Reset(ctx, gpu(n, 0), time.Hour) }()
	for gpu(n, 0).Lost == "" {
		select {
		case err := <-done:
			t.Fatalf("the reset ended at once: %v", err)
		default:
		}
	}
	cancel()
	assert.NilError(t, <-done)
	if g := gpu(n, 0); g.Lost != "" || g.Resets != 2 || len(g.MIG.GPUInstances) > 0 {
		t.Errorf("after the reset: got %+v, want it back without instances", g)
	}
}

func TestRejectionsNameTheFix(t *testing.T) {
	n := create(t, config(t, "h100-80", 1))
	g := gpu(n, 0)
	assert.NilError(t, n.State().PutProcess(0, state.Process{PID: 5, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}))
	tests := map[string]struct {
		do   func() error
		want string
	}{
		"mode of a GPU in use":  {func() error { _, err := n.SetMIGMode(g, true); return err }, "in use by process 5; end it first (gpu-sim proc end 0 5)"},
		"reset of a GPU in use": {func() error { return n.Reset(t.Context(), g, 0) }, "in use by process 5"},
		"create without mode":   {func() error { _, err := n.CreateMIG(g, requests(t, "1g.10gb")); return err }, "switch it on first (gpu-sim mig mode 0 on)"},
	}
	for name, test := range tests {
		if err := test.do(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}

func TestRebootStartsAnew(t *testing.T) {
	tests := map[string]struct {
		model string
		on    bool
	}{
		"Ampere keeps the mode":       {"a100-40", true},
		"Hopper starts without":       {"h100-80", false},
		"without driver the same way": {"a30", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := divided(t, test.model, 1)
			if test.model == "a30" {
				setDriver(t, n, false)
			}
			loaded := n.State().Show().Driver.Loaded
			assert.NilError(t, errors.Join(n.State().SetRecovery(0, "reboot"), n.State().Lose(0, state.LostHandle)))
			assert.NilError(t, n.Reboot())
			if g := gpu(n, 0); g.Lost != "" || g.Recovery != "" || g.MIG.Enabled != test.on || len(g.MIG.GPUInstances) > 0 {
				t.Errorf("got %+v, want it as new, with the mode %t", g, test.on)
			}
			if got := n.State().Show().Driver.Loaded; got != loaded {
				t.Errorf("driver loaded: got %t, want %t", got, loaded)
			}
		})
	}
}
