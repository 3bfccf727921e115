package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/agents/dcgm-exporter/internal/exporter"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/kernellog"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/podresources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const interval = 50 * time.Millisecond

// rig is an exporter of GPUs that a test controls.
type rig struct {
	*exporter.Exporter
	t    *testing.T
	fake *gputest.Fake
	pods *fakePods
	// out says that all GPUs were taken out of the machine.
	out atomic.Bool

	mu sync.Mutex
	// log is what the exporter has logged.
	log *agenttest.Lines
	// read is what each GPU answers.
	read map[gpu.UUID]func(context.Context) (telemetry.Sample, error)
}

// fakePods are those that a test sets.
type fakePods struct {
	mu    sync.Mutex
	users podresources.Map
}

func (*fakePods) Refresh(context.Context, *gpu.Node) error { return nil }

func (p *fakePods) Last() podresources.Map {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users
}

// start starts an exporter of a node with two GPUs.
func start(t *testing.T) *rig {
	t.Helper()
	return startWith(t, func(*rig, *exporter.Config) {})
}

// startWith is start with a changed config.
func startWith(t *testing.T, change func(*rig, *exporter.Config)) *rig {
	t.Helper()
	metrics, _, err := counters.Parse([]byte("DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_DEV_XID_ERRORS, gauge, x\n"))
	assert.NilError(t, err)
	r := &rig{t: t, log: agenttest.NewLines(), fake: gputest.New(gputest.Node("h100-80", 2)), pods: &fakePods{}, read: map[gpu.UUID]func(context.Context) (telemetry.Sample, error){}}
	cfg := exporter.Config{
		Source:      r.fake,
		WatchDriver: func(ctx context.Context, changed func()) error { changed(); <-ctx.Done(); return nil },
		OnBus:       func(string) bool { return !r.out.Load() },
		Sampler:     func(id gpu.UUID, _ []telemetry.Field) exporter.Sampler { return sampler{r, id} },
		Options: exposition.Options{
			Metrics: metrics, Names: exposition.Spelled, Hostname: []string{"Hostname"},
			Devices: exposition.Selector{Flexible: true}, XIDWindow: time.Minute, ClockWindow: time.Minute,
		},
		Interval: interval, Host: "node1", Pods: r.pods,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), r.log), nil)),
	}
	change(r, &cfg)
	r.Exporter = exporter.New(cfg)
	agenttest.Run(t, r.Run)
	return r
}

// logs waits until the exporter has logged a text n times.
func (r *rig) logs(text string, n int) {
	r.t.Helper()
	agenttest.Poll(r.t, fmt.Sprintf("%d lines of the log with %q", n, text), func() bool { return strings.Count(r.log.String(), text) == n })
}

type sampler struct {
	rig *rig
	id  gpu.UUID
}

func (s sampler) Sample(ctx context.Context, _ telemetry.Task) (telemetry.Sample, error) {
	s.rig.mu.Lock()
	read := s.rig.read[s.id]
	s.rig.mu.Unlock()
	if read == nil {
		return warm(40), nil
	}
	return read(ctx)
}

// warm is a reading of a GPU with a temperature.
func warm(celsius float64) telemetry.Sample {
	return telemetry.Sample{At: time.Now(), GPU: telemetry.Values{telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS: celsius}}
}

// answers sets what a GPU answers.
func (r *rig) answers(id gpu.UUID, read func(context.Context) (telemetry.Sample, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read[id] = read
}

// id returns the UUID of a GPU.
func id(index int) gpu.UUID { return gputest.Node("h100-80", 2).GPUs[index].UUID }

// has waits until a metric of a GPU has a value; "" for none.
func (r *rig) has(metric, index, want string) {
	r.t.Helper()
	var got string
	deadline := time.Now().Add(5 * time.Minute)
	for time.Now().Before(deadline) {
		if got = r.value(metric, index); got == want {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	r.t.Fatalf("%s of GPU %s is %q, want %q", metric, index, got, want)
}

// value returns the value of a metric of a GPU, and its pod.
func (r *rig) value(metric, index string) string {
	for _, f := range r.Served().Families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.Metric {
			text, is := strconv.FormatFloat(m.GetGauge().GetValue(), 'f', -1, 64), false
			for _, l := range m.Label {
				is = is || l.GetName() == "gpu" && l.GetValue() == index
				if l.GetName() == "pod" {
					text += " " + l.GetValue()
				}
			}
			if is {
				return text
			}
		}
	}
	return ""
}

func TestAHangingGPUHoldsUpNoOther(t *testing.T) {
	r := start(t)
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "40")
	r.has("DCGM_FI_DEV_GPU_TEMP", "1", "40")
	release := make(chan struct{})
	r.answers(id(0), func(context.Context) (telemetry.Sample, error) { <-release; return warm(50), nil })
	r.answers(id(1), func(context.Context) (telemetry.Sample, error) { return warm(60), nil })
	r.has("DCGM_FI_DEV_GPU_TEMP", "1", "60")
	r.has("gpu_up", "0", "0")
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "") // nothing that is too old is served
	r.has("gpu_up", "1", "1")
	assert.NilError(t, r.Ready(), "not ready while one GPU answers")
	close(release)
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "50")
	r.has("gpu_up", "0", "1")
}

// GPM measures between two readings.
func TestWhatAReadingBeginsIsReadSoon(t *testing.T) {
	var readings atomic.Int32
	r := startWith(t, func(r *rig, c *exporter.Config) {
		c.Interval = time.Hour
		r.answers(id(0), func(context.Context) (telemetry.Sample, error) {
			if readings.Add(1) == 1 {
				return telemetry.Sample{At: time.Now(), GPU: telemetry.Values{}, Begun: true}, nil
			}
			return warm(50), nil
		})
	})
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "50")
	if n := readings.Load(); n != 2 {
		t.Errorf("%d readings, want 2", n)
	}
}

func TestALostGPUStays(t *testing.T) {
	r := start(t)
	r.has("gpu_up", "0", "1")
	r.answers(id(0), func(context.Context) (telemetry.Sample, error) { return telemetry.Sample{}, errors.New("GPU is lost") })
	r.has("gpu_up", "0", "0")
	r.fake.SetNode(gputest.Node("h100-80", 0))
	r.has("gpu_up", "1", "") // nobody misses a GPU that worked: it was taken out
	r.has("gpu_up", "0", "0")
	r.answers(id(0), nil)
	r.fake.SetNode(gputest.Node("h100-80", 2))
	r.has("gpu_up", "0", "1")
	r.has("gpu_up", "1", "1")
	// One that is taken out of the machine because it does not work is not missed either.
	r.answers(id(0), func(context.Context) (telemetry.Sample, error) { return telemetry.Sample{}, errors.New("GPU is lost") })
	r.has("gpu_up", "0", "0")
	r.out.Store(true)
	r.fake.SetNode(gputest.Node("h100-80", 0))
	r.has("gpu_up", "0", "")
}

// A driver that another agent has claimed makes no GPU look lost.
func TestAClaimedDriverIsNoLostGPU(t *testing.T) {
	r := start(t)
	r.has("gpu_up", "0", "1")
	claimed := func(context.Context) (telemetry.Sample, error) { return telemetry.Sample{}, contract.ErrClaimed }
	r.answers(id(0), claimed)
	r.answers(id(1), claimed)
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "")
	if got := r.value("gpu_up", "0"); got == "0" {
		t.Error("the GPU is down")
	}
	agenttest.Poll(t, "the exporter is not ready, because it has no reading", func() bool { return r.Ready() != nil })
	r.answers(id(0), nil)
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "40")
}

// TestADriverThatDoesNotAnswerIsLogged once, with the cause, and when it answers again.
func TestADriverThatDoesNotAnswerIsLogged(t *testing.T) {
	r := start(t)
	r.has("gpu_up", "0", "1")
	r.logs("the driver", 0)
	r.fake.SetDriver(false)
	r.Reload()
	r.logs(`level=WARN msg="the driver does not answer, gpus have no readings until it does" err=`, 1)
	r.has("gpu_up", "0", "0")
	r.Reload()
	r.fake.SetDriver(true)
	r.Reload()
	r.logs(`level=INFO msg="the driver answers" version=`, 1)
	r.has("gpu_up", "0", "1")
	r.logs("does not answer", 1)
}

// Without a driver, the log names only the missing driver: an operator has to mend that first.
func TestOnlyAMissingDriverIsLogged(t *testing.T) {
	r := startWith(t, func(r *rig, cfg *exporter.Config) {
		r.fake.SetDriver(false)
		cfg.WatchLog = func(context.Context, func(kernellog.XID)) error {
			return errors.New("open /dev/kmsg: no such file or directory")
		}
	})
	r.logs("the driver does not answer, gpus have no readings until it does", 1)
	r.fake.SetDriver(true)
	r.Reload()
	r.logs("the driver answers", 1)
	r.logs("cannot read the kernel's log", 1)
	if before, _, _ := strings.Cut(r.log.String(), "the driver answers"); strings.Contains(before, "kernel's log") {
		t.Errorf("the log names the kernel's log before the driver answers:\n%s", before)
	}
}

func TestDevicesThatTheNodeDoesNotHaveAreLogged(t *testing.T) {
	for name, devices := range map[string]exposition.Selector{
		"a gpu":       {GPUs: []int{0, 9}},
		"an instance": {Flexible: true, Instances: []int{9}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startWith(t, func(_ *rig, cfg *exporter.Config) { cfg.Options.Devices = devices })
			r.logs("names devices that this node does not have", 1)
			r.Reload()
			r.has("DCGM_FI_DEV_XID_ERRORS", "0", "0")
			r.logs("names devices that this node does not have", 1)
		})
	}
}

func TestXIDsAndPods(t *testing.T) {
	r := start(t)
	r.has("DCGM_FI_DEV_XID_ERRORS", "0", "0")
	r.fake.PostXID(id(0), 31)
	r.has("DCGM_FI_DEV_XID_ERRORS", "0", "31")
	r.has("DCGM_FI_DEV_XID_ERRORS", "1", "0")
	r.pods.mu.Lock()
	r.pods.users = podresources.Map{id(1): {{Namespace: "ml", Pod: "train", Container: "main"}}}
	r.pods.mu.Unlock()
	r.has("DCGM_FI_DEV_GPU_TEMP", "1", "40 train")
	r.has("DCGM_FI_DEV_GPU_TEMP", "0", "40")
}
