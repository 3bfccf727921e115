package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// measureXIDs measures the time from an XID until the kubelet's list has exactly the affected
// entries as unhealthy. It also measures the recovery: the driver requests a recovery of the GPU,
// and then withdraws the request. A time begins before the command to the simulator, and ends when
// the list arrives, before it is decoded.
func (b *Bench) measureXIDs(ctx context.Context, p *plugin, s scene, latency time.Duration) (err error) {
	if len(s.hits) == 0 {
		return nil
	}
	batch, err := b.Node.Batch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	for _, h := range s.hits {
		var down, up []time.Duration
		for i := range b.Runs {
			runtime.GC() // collect the garbage of earlier steps before the measurement
			t := trial{plugin: p, batch: batch, gpu: strconv.Itoa(i % s.gpus), hit: h}
			d, u, err := t.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", h.name, err)
			}
			down, up = append(down, d), append(up, u)
		}
		b.Report.AddTimes(report.Title(h.name+" → Unhealthy at the kubelet", s.name, latency), down, h.goal,
			fmt.Sprintf("%d of %d devices", h.entries, s.entries))
		b.Report.AddTimes(report.Title("GPU recovered → Healthy at the kubelet", s.name, latency), up, report.Goal{Peer: "never"},
			"after "+h.name)
	}
	return nil
}

// trial is one XID of a GPU.
type trial struct {
	plugin *plugin
	batch  *simnode.Batch
	gpu    string
	hit    hit
}

// instance is the affected GPU instance. A100 GPUs number instances of one slice from
// 7.
const instance = "8/0"

func (t trial) run(ctx context.Context) (down, up time.Duration, err error) {
	xid := []string{"xid", t.gpu, "95"}
	if t.hit.instance {
		xid = []string{"xid", "--instance", instance, t.gpu, "95"}
	}
	down, err = t.until(ctx, t.hit.entries, xid...)
	if err != nil {
		return 0, 0, err
	}
	if err := t.batch.Do("set", t.gpu+".recovery=reset"); err != nil {
		return 0, 0, err
	}
	// Wait until the plugin has observed the driver's request.
	if err := t.plugin.Metric(ctx, `reason="`+string(cause.DeviceRecovery)+`"`); err != nil {
		return 0, 0, err
	}
	up, err = t.until(ctx, 0, "set", t.gpu+".recovery=none")
	return down, up, err
}

// until runs a command and returns the time until this number of devices is unhealthy.
func (t trial) until(ctx context.Context, unhealthy int, command ...string) (time.Duration, error) {
	begin := time.Now()
	if err := t.batch.Do(command...); err != nil {
		return 0, err
	}
	u, err := t.plugin.unhealthy(ctx, unhealthy)
	return u.At.Sub(begin), err
}
