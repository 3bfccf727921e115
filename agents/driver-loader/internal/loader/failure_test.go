package loader_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// with returns a loader of a node that desires a version with the sample parameter.
func with(n loadertest.Node, version, param string) *loader.Loader {
	return loader.New(configured(n, version, param), loadertest.Machine)
}

// configured returns the configuration of with.
func configured(n loadertest.Node, version, param string) loader.Config {
	cfg := n.Config(version, slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) {
		return loader.Desired{Version: version, Params: stack.Params{"nvidia": {loadertest.Param + "=" + param}}}, nil
	}
	return cfg
}

// A driver whose load failed halfway is loaded, and a rollback loads it again.
func TestARollbackAfterAHalfLoadedDriverKeepsItsParameters(t *testing.T) {
	n := loadertest.New(t)
	n.Stock(t, one)
	n.Stock(t, two)
	n.Break(t, "nvidia_uvm", "it says why")
	if step := with(n, one, "1").Settle(t.Context()); step.Kind != loader.Wait || n.Param() != "1" {
		t.Fatalf("%s, and the parameter is %q", step, n.Param())
	}
	n.Break(t, "nvidia_uvm", "")
	n.Reject(t, two)
	step := with(n, two, "2").Settle(t.Context())
	if n.Loaded() != one || n.Param() != "1" {
		t.Errorf("%s: driver %q is loaded with the parameter %q", step, n.Loaded(), n.Param())
	}
}

func TestTheLastFailureIsRecorded(t *testing.T) {
	n := loadertest.New(t)
	n.Stock(t, one)
	n.Break(t, "nvidia_uvm", "it says why")
	l := with(n, one, "1")
	l.Settle(t.Context())
	failure := func() []cause.Cause {
		o, err := with(n, one, "1").Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o.LastFailure(o.Desired(loader.Desired{Version: one, Params: stack.Params{"nvidia": {loadertest.Param + "=1"}}}))
	}
	if got := failure(); len(got) != 1 || got[0].Code != cause.ModuleInitFailed || got[0].Text != "it says why" {
		t.Errorf("after the failure: %v", got)
	}
	n.Break(t, "nvidia_uvm", "")
	l.Settle(t.Context())
	if got := failure(); len(got) != 0 {
		t.Errorf("after a success: %v", got)
	}
}

// holding are daemons of a driver that use it while they run.
type holding struct {
	started
	node loadertest.Node
	t    *testing.T
	err  error
}

func (h *holding) Start(ctx context.Context) (skipped, err error) {
	h.node.Use(h.t, true)
	skipped, err = h.started.Start(ctx)
	return skipped, errors.Join(err, h.err)
}

func (h *holding) Stop(context.Context) error {
	if h.runs {
		h.node.Use(h.t, false)
	}
	h.runs = false
	return nil
}

func TestTheKernelsOwnDriverComesBack(t *testing.T) {
	var daemons *holding
	for name, breaks := range map[string]func(loadertest.Node){
		"the core does not load":    func(n loadertest.Node) { n.Reject(t, one) },
		"another module does not":   func(n loadertest.Node) { n.Break(t, "nvidia_modeset", "it says why") },
		"the devices do not answer": func(n loadertest.Node) { n.Mute(t, one) },
		"a daemon does not start":   func(loadertest.Node) { daemons.err = errors.New("it says why") },
	} {
		t.Run(name, func(t *testing.T) {
			n := loadertest.New(t)
			n.Stock(t, one)
			n.Nouveau(t)
			daemons = &holding{node: n, t: t}
			breaks(n)
			unloads := 0
			n.At = func(what string) {
				if what == "unload nouveau" {
					unloads++
				}
			}
			cfg := configured(n, one, "1")
			cfg.Daemons = daemons
			l := loader.New(cfg, loadertest.Machine)
			for range 2 {
				if step := l.Settle(t.Context()); step.Kind != loader.Wait || !n.HasModule("nouveau") || n.HasModule("nvidia") {
					t.Errorf("%s %v; nouveau is loaded: %v, nvidia is loaded: %v", step, step.Causes, n.HasModule("nouveau"), n.HasModule("nvidia"))
				}
			}
			if step := l.Settle(t.Context()); unloads != 1 || !strings.Contains(step.Causes[0].Text, "nouveau was loaded again") {
				t.Errorf("it was unloaded %d times; %v", unloads, step.Causes)
			}
			// The next try is asked for.
			n.Reject(t, "")
			n.Mute(t, "")
			n.At = nil
			daemons.err = nil
			n.Break(t, "nvidia_modeset", "")
			l.Retry()
			if step := l.Settle(t.Context()); step.Kind != loader.Done || n.Loaded() != one || n.HasModule("nouveau") {
				t.Errorf("%s %v", step, step.Causes)
			}
		})
	}
}
