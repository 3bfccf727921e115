package license_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
)

// rig is a Watch whose queries the test answers.
type rig struct {
	*license.Watch
	t          *testing.T
	configured atomic.Bool
	answers    chan answer
	// asked gets a value when the licenses were looked at; events are those that were sent.
	asked  chan struct{}
	events chan kube.Event
	log    *agenttest.Lines
}

type answer struct {
	output string
	err    error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, answers: make(chan answer), asked: make(chan struct{}), events: make(chan kube.Event, 10), log: agenttest.NewLines()}
	r.Watch = license.New(license.Config{
		Configured: r.configured.Load, Report: func(e kube.Event) { r.events <- e }, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Query: func(ctx context.Context) (string, error) {
			select {
			case a := <-r.answers:
				return a.output, a.err
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	})
	return r
}

// run runs the Watch until the test ends.
func (r *rig) run(undisturbed license.Undisturbed) {
	agenttest.Run(r.t, func(ctx context.Context) error { return r.Run(ctx, undisturbed) })
}

// always lets each look happen, and says when it has.
func (r *rig) always(ctx context.Context, f func(context.Context) error) error {
	err := f(ctx)
	select {
	case r.asked <- struct{}{}:
	case <-ctx.Done():
	}
	return err
}

// look answers one look.
func (r *rig) look(a answer) {
	r.t.Helper()
	r.Again()
	r.answers <- a
	<-r.asked
}

func TestALicenseThatIsLostIsReported(t *testing.T) {
	r := newRig(t)
	r.configured.Store(true)
	r.run(r.always)
	r.answers <- answer{output: output("Licensed (Expiry: 2026-1-31 9:5:7 GMT)", "Unlicensed")}
	<-r.asked
	r.look(answer{output: output("Unlicensed (Restricted)", "Unlicensed")})
	want := kube.Event{Warning: true, Reason: string(cause.VGPULicenseLost), Message: "GPU 00000000:02:01.0: NVIDIA Virtual Compute Server: Unlicensed (Restricted). Without a license, the GPU becomes slow: " +
		"see the log of nvidia-gridd; check gridd.conf, the token, the clock of the node, and the connection to the license server"}
	if d := cmp.Diff(want, <-r.events); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	r.look(answer{output: output("Licensed (Expiry: 2026-1-31 9:5:7 GMT)", "Licensed")})
	if got := <-r.events; got.Reason != license.ReasonLicensed || got.Warning {
		t.Errorf("%+v", got)
	}
	// The next query begins after the last answer was taken in.
	r.Again()
	r.answers <- answer{output: output("Licensed (Expiry: 2026-1-31 9:5:7 GMT)", "Unlicensed")}
	wantMetrics := map[string]float64{
		"outrigger_driver_loader_vgpu_licensed 00000000:02:01.0": 1, "outrigger_driver_loader_vgpu_licensed 00000000:03:01.0": 1,
		"outrigger_driver_loader_vgpu_license_expiry_timestamp_seconds 00000000:02:01.0": 1769850307,
	}
	if d := cmp.Diff(wantMetrics, r.metrics()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// metrics returns the values of the metrics by name and GPU.
func (r *rig) metrics() map[string]float64 {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(license.NewMetrics(r.Watch))
	families, err := registry.Gather()
	assert.NilError(r.t, err)
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			out[family.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestNothingRunsWithoutAConfiguredLicense(t *testing.T) {
	r := newRig(t)
	looked := make(chan struct{}, 1)
	r.run(func(context.Context, func(context.Context) error) error {
		looked <- struct{}{}
		return loader.ErrNotDone
	})
	r.Again()
	r.configured.Store(true)
	r.Again()
	<-looked
	if got := r.log.String(); got != "" {
		t.Error(got)
	}
}

func TestWhatCannotBeReadIsLoggedOnceAndNotKnown(t *testing.T) {
	r := newRig(t)
	r.configured.Store(true)
	r.run(r.always)
	r.answers <- answer{output: output("Licensed")}
	<-r.asked
	for range 2 {
		r.look(answer{err: errors.New("no device")})
	}
	r.look(answer{output: "GPU 00000000:02:01.0\n"})
	r.Again()
	r.answers <- answer{output: output("Licensed")} // so all before is taken in
	if got := r.Products(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	log := r.log.String()
	if strings.Count(log, "no device") != 1 || strings.Count(log, `shows no \"vGPU Software Licensed Product\": use a driver for vGPU guests, or remove gridd.conf`) != 1 {
		t.Error(log)
	}
}
