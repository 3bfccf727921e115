package loader_test

import (
	"log/slog"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// withOptional returns a loader of a node that selects all optional modules, and the causes that it
// reports.
func withOptional(n loadertest.Node, version string) (*loader.Loader, *[]cause.Cause) {
	cfg := n.Config(version, slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) {
		return loader.Desired{Version: version, Options: stack.Options{RDMA: true, Storage: true, GDRCopy: true}}, nil
	}
	var reported []cause.Cause
	cfg.Skipped = func(c cause.Cause) { reported = append(reported, c) }
	return loader.New(cfg, loadertest.Machine), &reported
}

// codes returns the states of optional modules: "loaded", "" or the code of a cause.
func codes(s loader.Step) map[string]string {
	out := map[string]string{}
	for _, m := range s.Optional {
		switch {
		case m.Loaded:
			out[m.Module] = "loaded"
		case m.Cause != nil:
			out[m.Module] = string(m.Cause.Code)
		default:
			out[m.Module] = ""
		}
	}
	return out
}

func TestAnOptionalModuleNeverHoldsTheDriverBack(t *testing.T) {
	for module, code := range map[string]cause.Code{
		"nvidia_peermem": cause.RDMAUnavailable, "nvidia_fs": cause.GDSUnavailable, "gdrdrv": cause.GDRCopyUnavailable,
	} {
		t.Run(module, func(t *testing.T) {
			n := loadertest.New(t)
			n.Optional = true
			loads := 0
			n.At = func(what string) {
				if what == "load "+module {
					loads++
				}
			}
			n.Adapter(t)
			n.Stock(t, one)
			n.Break(t, module, "it says why")
			l, reported := withOptional(n, one)
			for range 2 {
				step := l.Settle(t.Context())
				if step.Kind != loader.Done || len(step.Causes) > 0 || l.Ready() != nil || n.Published() != one {
					t.Fatalf("%s %v, ready: %v, published: %q", step, step.Causes, l.Ready(), n.Published())
				}
				for name, got := range codes(step) {
					if want := map[bool]string{true: string(code), false: "loaded"}[name == module]; got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			}
			if loads != 1 {
				t.Errorf("it was tried %d times, and nothing had changed", loads)
			}
			if len(*reported) != 1 || (*reported)[0].Code != code || !strings.Contains((*reported)[0].Text, "it says why") || (*reported)[0].Fix == "" {
				t.Errorf("reported: %v", *reported)
			}
			n.Break(t, module, "")
			l.Retry()
			if step := l.Settle(t.Context()); codes(step)[module] != "loaded" || !n.HasModule(module) {
				t.Errorf("%s %v", step, codes(step))
			}
		})
	}
}

func TestAnUpgradeIgnoresOptionalModules(t *testing.T) {
	n := loadertest.New(t)
	n.Optional = true
	n.Adapter(t)
	n.Stock(t, one)
	l, _ := withOptional(n, one)
	l.Settle(t.Context())
	n.Optional = false // the next driver has none of them
	n.Stock(t, two)
	l, _ = withOptional(n, two)
	if step := l.Settle(t.Context()); step.Kind != loader.Done || len(step.Causes) > 0 || n.Loaded() != two || codes(step)["nvidia_fs"] != string(cause.GDSUnavailable) {
		t.Errorf("%s %v %v", step, step.Causes, codes(step))
	}
}

func TestPeermemNeedsANetworkAdapter(t *testing.T) {
	n := loadertest.New(t)
	n.Optional = true
	n.Stock(t, one)
	l, reported := withOptional(n, one)
	step := l.Settle(t.Context())
	if got := codes(step); got["nvidia_peermem"] != "" || n.HasModule("nvidia_peermem") || len(*reported) > 0 || got["gdrdrv"] != "loaded" {
		t.Errorf("without an adapter: %v, %v", got, *reported)
	}
	n.Adapter(t)
	if got := codes(l.Settle(t.Context())); got["nvidia_peermem"] != "loaded" {
		t.Errorf("an adapter came: %v", got)
	}
}

// The driver of the network adapters can come after the driver of the GPUs.
func TestPeermemFollowsTheHeadersOfTheNetworkAdapters(t *testing.T) {
	alone := func(network string) cache.Set {
		return cache.Set{Key: cache.Key{Driver: "1", Sources: "d1", Flavour: "open-nvidia_peermem"}, Network: network, Dir: "/alone"}
	}
	for name, tc := range map[string]struct {
		network, base string
		more          []cache.Set
		kind          loader.Kind
	}{
		"no headers":                           {"", "", nil, loader.Load},
		"headers came":                         {"n1", "", nil, loader.Build},
		"… and peermem was built with them":    {"n1", "", []cache.Set{alone("n1")}, loader.Load},
		"… other headers came":                 {"n2", "", []cache.Set{alone("n1")}, loader.Build},
		"all modules were built with them":     {"n1", "n1", nil, loader.Load},
		"… and peermem before, with others":    {"n1", "n1", []cache.Set{alone("n0")}, loader.Load},
		"the headers are gone, after a reboot": {"", "", []cache.Set{alone("n1")}, loader.Load},
	} {
		t.Run(name, func(t *testing.T) {
			o := running()
			o.Adapter, o.Network = true, tc.network
			o.Sets[0].Network = tc.base
			o.Sets = append(o.Sets, tc.more...)
			step := loader.Next(o, loader.Desired{Version: "1", Flavour: payload.Open, Options: stack.Options{RDMA: true}})
			if step.Kind != tc.kind || step.Driver.Version != "1" {
				t.Errorf("%s, want %s", step, tc.kind)
			}
		})
	}
}

// The module that was built alone has a parameter that the other one does not have.
func TestPeermemThatWasBuiltAloneIsLoaded(t *testing.T) {
	n := loadertest.New(t)
	n.Optional = true
	n.Adapter(t)
	p := n.Stock(t, one)
	n.StockPeermem(t, p, "alone")
	cfg := n.Config(one, slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) {
		return loader.Desired{Version: one, Options: stack.Options{RDMA: true}, Params: stack.Params{"nvidia_peermem": {"alone=1"}}}, nil
	}
	step := loader.New(cfg, loadertest.Machine).Settle(t.Context())
	if codes(step)["nvidia_peermem"] != "loaded" {
		t.Errorf("%s %v", step, step.Optional)
	}
}

func TestAnOptionalModuleWithItsOwnSourcesIsBuiltAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		sources string
		more    []cache.Set
		kind    loader.Kind
	}{
		"without sources, the driver has the module": {"", nil, loader.Load},
		"the sources came":                           {"0123456789abcdefgh", nil, loader.Build},
		"… and the module was built":                 {"0123456789abcdefgh", []cache.Set{{Key: cache.Key{Sources: "d1", Flavour: "open-gdrdrv-0123456789abcdef"}}}, loader.Load},
		"… from other sources":                       {"fedcba9876543210", []cache.Set{{Key: cache.Key{Sources: "d1", Flavour: "open-gdrdrv-0123456789abcdef"}}}, loader.Build},
	} {
		t.Run(name, func(t *testing.T) {
			o := running()
			if tc.sources != "" {
				o.Sources = map[string]optional.Source{"gdrdrv": {Module: "gdrdrv", Digest: tc.sources}}
			}
			o.Sets = append(o.Sets, tc.more...)
			step := loader.Next(o, loader.Desired{Version: "1", Flavour: payload.Open, Options: stack.Options{GDRCopy: true}})
			if step.Kind != tc.kind {
				t.Errorf("%s, want %s", step, tc.kind)
			}
		})
	}
}

func TestOptionalModulesAreBuiltBeforeAnUpgrade(t *testing.T) {
	o := running()
	o.Sources = map[string]optional.Source{"gdrdrv": {Module: "gdrdrv", Digest: "0123456789abcdef"}}
	o.Modules["gdrdrv"] = kernel.Loaded{Name: "gdrdrv"}
	desired := keep2
	desired.Options = stack.Options{GDRCopy: true}
	step := loader.Next(o, desired)
	if step.Kind != loader.Build || step.Driver.Version != "2" || codes(step)["gdrdrv"] != "loaded" {
		t.Errorf("%s %v", step, step.Optional)
	}
	o.Sets = append(o.Sets, cache.Set{Key: cache.Key{Sources: "d2", Flavour: "open-gdrdrv-0123456789abcdef"}})
	if step := loader.Next(o, desired); step.Kind != loader.Rehearse {
		t.Errorf("it is built: %s", step)
	}
}

// The module of the loaded driver and the module of the next driver fail. Neither is tried again because of
// the other one.
func TestFailuresOfTwoDriversDoNotAlternate(t *testing.T) {
	n := loadertest.New(t)
	n.Optional = true
	loads := 0
	n.At = func(what string) {
		if what == "load gdrdrv" {
			loads++
		}
	}
	n.Break(t, "gdrdrv", "it says why")
	n.Stock(t, one)
	options := stack.Options{GDRCopy: true}
	desired := loader.Desired{Version: one, Options: options}
	cfg := n.Config("", slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) { return desired, nil }
	l := loader.New(cfg, loadertest.Machine)
	l.Settle(t.Context())
	n.Stock(t, two)
	n.StockSource(t, "gdrdrv")
	desired = loader.Desired{Version: two, Options: options, Keep: true}
	for range 2 {
		step := l.Settle(t.Context())
		if step.Kind != loader.Done || step.Driver.Version != one || len(step.Causes) > 0 {
			t.Fatalf("%s %v", step, step.Causes)
		}
	}
	if loads != 1 {
		t.Errorf("gdrdrv was tried %d times", loads)
	}
}
