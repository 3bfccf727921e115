package inventory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func TestWaitsForTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.source.SetDriver(false)
		r.run()
		s := r.settled()
		if !errors.Is(s.Unusable(), gpu.ErrNoDriver) || devices(s) != 0 {
			t.Errorf("without a driver: %v, %d devices", s.Unusable(), devices(s))
		}
		r.source.SetDriver(true)
		if s = r.after(time.Minute); s.Unusable() != nil || devices(s) != 2 {
			t.Errorf("with a driver: %v, %d devices; want 2", s.Unusable(), devices(s))
		}
		if got, want := r.recorder.waited(), []cause.Code{cause.DeviceDriver, ""}; !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q: once, however often it is retried", got, want)
		}
		if got, want := r.reports.kinds(), []cause.Code{cause.GPUsNotOffered}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
	})
}

func TestADriverThatGoesMakesItsGPUsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.run()
		r.settled()
		r.source.SetDriver(false)
		s := r.after(time.Minute)
		if bad := unhealthy(s); len(bad) != 2 || bad["0"].Kind != cause.DeviceDriver || !errors.Is(s.Unusable(), gpu.ErrNoDriver) {
			t.Errorf("unhealthy %v, %v; want both GPUs for want of a driver", bad, s.Unusable())
		}
		r.source.SetDriver(true)
		if s = r.after(time.Minute); len(unhealthy(s)) != 0 || s.Unusable() != nil {
			t.Errorf("unhealthy %v, %v with the driver back", unhealthy(s), s.Unusable())
		}
	})
}

// While NVML is claimed the driver does not answer, and that says nothing about the GPUs.
func TestAClaimOfNVMLLeavesTheGPUsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.run()
		r.settled()
		r.source.SetError(fmt.Errorf("share the lease: %w", contract.ErrClaimed))
		r.inv.Reload()
		s := r.after(time.Minute)
		if len(unhealthy(s)) != 0 || s.Unusable() != nil || s.Trouble == nil {
			t.Errorf("unhealthy %v, unusable %v, trouble %v", unhealthy(s), s.Unusable(), s.Trouble)
		}
		if got, want := r.recorder.waited(), []cause.Code{"", cause.DeviceClaimed}; !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
		if got := r.reports.kinds(); len(got) != 0 {
			t.Errorf("reported %q, although what is advertised stays", got)
		}
	})
}

func TestAnXIDAndAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.run()
		id := r.settled().Node.GPUs[1].UUID
		r.source.PostXID(id, 31) // an error of the application
		r.source.PostXID(id, 48)
		s := r.settled()
		if bad := unhealthy(s); len(bad) != 1 || bad["1"].Kind != cause.DeviceXID {
			t.Errorf("unhealthy %v, want GPU 1", bad)
		}
		if len(r.recorder.events) < 2 {
			t.Errorf("recorded %v, want both XIDs", r.recorder.events)
		}
		r.inv.Reload()
		if s = r.settled(); len(unhealthy(s)) != 0 {
			t.Errorf("unhealthy %v after a reload", unhealthy(s))
		}
		want := []cause.Code{cause.DeviceUnhealthy, inventory.ReportHealthy}
		if got := r.reports.kinds(); !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
	})
}

// No event reports the end of the quiet window, after which an XID that needs no reset
// is over.
func TestAGPUBecomesHealthyAfterTheQuietWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, func(c *inventory.Config) { c.Rules.Quiet = time.Minute })
		r.run()
		r.source.PostXID(r.settled().Node.GPUs[0].UUID, 61)
		if s := r.after(59 * time.Second); len(unhealthy(s)) != 1 {
			t.Errorf("unhealthy %v within the quiet window, want the GPU", unhealthy(s))
		}
		before := r.source.Calls().Snapshot
		if s := r.after(2 * time.Second); len(unhealthy(s)) != 0 {
			t.Errorf("unhealthy %v after the quiet window", unhealthy(s))
		}
		r.after(time.Hour)
		if n := r.source.Calls().Snapshot - before; n != 1 {
			t.Errorf("%d snapshots since, want 1", n)
		}
	})
}

func TestADriverThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.run()
		r.settled()
		r.source.SetHealth(fmt.Errorf("call NVML: %w", gpu.ErrHangs))
		s := r.after(time.Minute)
		if bad := unhealthy(s); len(bad) != 2 || bad["0"].Kind != cause.DeviceHang || !errors.Is(s.Unusable(), gpu.ErrHangs) {
			t.Errorf("unhealthy %v, %v; want both GPUs for a hang", bad, s.Unusable())
		}
		assert.ErrorIs(t, r.inv.Hangs(), gpu.ErrHangs)
		r.source.SetHealth(nil)
		if s = r.after(time.Minute); len(unhealthy(s)) != 0 || s.Unusable() != nil || r.inv.Hangs() != nil {
			t.Errorf("unhealthy %v, %v, %v with a driver that answers again", unhealthy(s), s.Unusable(), r.inv.Hangs())
		}
		if got, want := r.recorder.waited(), []cause.Code{"", cause.DeviceHang, ""}; !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	})
}

func TestFailOnInitError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, func(c *inventory.Config) { c.Config.FailOnInitError = true })
		r.source.SetDriver(false)
		err := r.inv.Run(t.Context())
		if !errors.Is(err, gpu.ErrNoDriver) || !strings.Contains(err.Error(), "fail-on-init-error") {
			t.Errorf("Run() = %v", err)
		}
	})
}

func TestAConfigIsAppliedAndAWrongOneRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.run()
		r.settled()
		next := config.Default()
		next.Filter.Exclude = []string{"1"}
		rules, _ := health.ParseRules("48", "")
		r.inv.Configure(next, rules)
		s := r.settled()
		if devices(s) != 1 || len(s.Set.Unlisted) != 1 || !slices.Equal(s.Config.Filter.Exclude, []string{"1"}) {
			t.Errorf("%d devices, unlisted %v with a GPU excluded", devices(s), s.Set.Unlisted)
		}
		r.source.PostXID(s.Node.GPUs[0].UUID, 48)
		if bad := unhealthy(r.settled()); len(bad) != 0 {
			t.Errorf("unhealthy %v for an XID that the new rules ignore", bad)
		}
		r.inv.Reject(errors.New("config.yaml: line 3"))
		if s = r.settled(); devices(s) != 1 {
			t.Errorf("%d devices after a rejected config, want the previous one in use", devices(s))
		}
		if got := r.reports.kinds(); !slices.Equal(got, []cause.Code{cause.ConfigRefused}) {
			t.Errorf("reported %q", got)
		}
		if got := r.recorder.configured; len(got) != 2 || got[0] != nil || got[1] == nil {
			t.Errorf("recorded configs %v", got)
		}
	})
}

// claims denies what is in it.
type claims struct {
	denied atomic.Pointer[map[string]error]
}

func (c *claims) Claim([]string) map[string]error { return *c.denied.Load() }

func TestAGPUOfAnotherProcessIsNotAdvertised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := gputest.Node(gputest.A100, 3)
		first, second := string(node.GPUs[0].UUID), string(node.GPUs[1].UUID)
		c := &claims{}
		c.denied.Store(&map[string]error{
			first:  contract.AdvertisedError{Device: first, By: "dra-plugin"},
			second: errors.New("disk is full"),
		})
		r := newRig(t, 3, func(cfg *inventory.Config) { cfg.Claims = c })
		r.run()
		s := r.settled()
		if devices(s) != 1 || len(s.Set.Unlisted) != 2 || s.Set.Unlisted[0].Kind != cause.DeviceExcluded || s.Set.Unlisted[1].Kind != cause.DeviceFault {
			t.Errorf("%d devices, unlisted %+v", devices(s), s.Set.Unlisted)
		}
		if want := "gpu " + first + " is advertised by dra-plugin, and is not advertised twice"; s.Set.Unlisted[0].Reason != want {
			t.Errorf("the reason is %q, want %q", s.Set.Unlisted[0].Reason, want)
		}
		c.denied.Store(&map[string]error{first: contract.AdvertisedError{Device: first, By: "dra-plugin"}})
		if s = r.after(10 * time.Second); devices(s) != 2 {
			t.Errorf("%d devices a while after a claim that failed, want 2", devices(s))
		}
		c.denied.Store(&map[string]error{})
		if s = r.after(time.Hour); devices(s) != 2 {
			t.Errorf("%d devices without a wake-up, want 2", devices(s))
		}
		r.inv.Wake()
		if s = r.settled(); devices(s) != 3 {
			t.Errorf("%d devices after the GPUs are free, want 3", devices(s))
		}
	})
}

// Without a run root no other process could see a claim. It may have been away for moments
// only.
func TestWithoutARunRootNoGPUIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := string(gputest.Node(gputest.A100, 1).GPUs[0].UUID)
		c := &claims{}
		c.denied.Store(&map[string]error{id: fmt.Errorf("claim: %w", contract.ErrNoRunRoot)})
		r := newRig(t, 1, func(cfg *inventory.Config) { cfg.Claims = c })
		r.run()
		if s := r.settled(); devices(s) != 1 {
			t.Errorf("%d devices without a run root, want 1", devices(s))
		}
		c.denied.Store(&map[string]error{id: contract.AdvertisedError{Device: id, By: "dra-plugin"}})
		if s := r.after(10 * time.Second); devices(s) != 0 {
			t.Errorf("%d devices a while after there is a run root, and another process has the GPU", devices(s))
		}
	})
}

// preparer fails while err is set, and leaves out devices, each for a reason of its own.
type preparer struct {
	inventory.Unprepared
	err        atomic.Pointer[error]
	unresolved map[gpu.UUID]string
}

func (p *preparer) Scan(config.Config) func(*gpu.Node) (inventory.Prepared, error) {
	return func(*gpu.Node) (inventory.Prepared, error) {
		if err := p.err.Load(); err != nil {
			return inventory.Prepared{}, *err
		}
		return inventory.Prepared{Unresolved: p.unresolved}, nil
	}
}

func TestOnlyPreparedDevicesAreAdvertised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		p := &preparer{unresolved: map[gpu.UUID]string{gputest.Node(gputest.A100, 2).GPUs[1].UUID: "/dev/nvidia1 is missing"}}
		p.err.Store(&full)
		r := newRig(t, 2, func(c *inventory.Config) { c.Preparer = p })
		r.run()
		if s := r.settled(); !errors.Is(s.Unusable(), full) || devices(s) != 0 {
			t.Errorf("%v, %d devices while nothing can be prepared", s.Unusable(), devices(s))
		}
		p.err.Store(nil)
		s := r.after(time.Minute)
		if bad := unhealthy(s); devices(s) != 2 || len(bad) != 1 || bad["1"].Kind != cause.DeviceUnprepared {
			t.Errorf("%d devices, unhealthy %v; want GPU 1 unprepared", devices(s), bad)
		}
		if got, want := r.recorder.waited(), []cause.Code{cause.DeviceUnprepared, ""}; !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	})
}

// TestWhatDevicesLackIsOneReport has a node without the device nodes of two of its GPUs.
func TestWhatDevicesLackIsOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpus := gputest.Node(gputest.A100, 3).GPUs
		p := &preparer{unresolved: map[gpu.UUID]string{gpus[1].UUID: "/dev/nvidia1 is missing", gpus[2].UUID: "/dev/nvidia2 is missing"}}
		r := newRig(t, 3, func(c *inventory.Config) { c.Preparer = p })
		r.run()
		r.settled()
		want := fmt.Sprintf("unprepared: nvidia.com/gpu 1 %s, 2 %s: /dev/nvidia1 is missing; the same for other devices, see the log", gpus[1].UUID, gpus[2].UUID)
		if all := r.reports.all; len(all) != 1 || all[0].String() != want {
			t.Errorf("reported %v, want one report: %s", all, want)
		}
	})
}

// gate closes devices that MPS shares until it opens.
type gate struct{ open atomic.Bool }

func (g *gate) Closed(_ resource.Resource, d resource.Device, _ config.Config) string {
	if g.open.Load() || !d.MPS {
		return ""
	}
	return "the MPS control daemon is not ready"
}

func TestAClosedGateMakesSharedDevicesUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		r := newRig(t, 2, func(c *inventory.Config) {
			c.Gate = g
			c.Config.Sharing = config.Sharing{Strategy: config.SharingMPS, Shares: []config.Share{{
				Name: resource.GPU, Replicas: 2, Devices: config.Selection{Count: 1},
			}}}
		})
		r.run()
		if bad := unhealthy(r.settled()); len(bad) != 1 || bad["0"].Kind != cause.DeviceMPS {
			t.Errorf("unhealthy %v, want the shared GPU alone", bad)
		}
		g.open.Store(true)
		r.inv.Wake()
		if bad := unhealthy(r.settled()); len(bad) != 0 {
			t.Errorf("unhealthy %v with an open gate", bad)
		}
	})
}
