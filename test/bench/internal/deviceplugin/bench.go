// Package deviceplugin measures the device plugin: the binary that ships, on
// the simulated node that this process runs in, with a kubelet over real
// sockets.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// Targets of DESIGN.md, section 9.
const (
	targetStart    = 20 * time.Millisecond
	targetReturn   = 50 * time.Millisecond
	targetXID      = 3 * time.Millisecond
	targetCDI      = 20 * time.Millisecond
	targetAllocate = time.Millisecond
	targetRSS      = 18
)

// rssAfter is how long the plugin has been idle when its memory is read.
const rssAfter = 3 * time.Second

// Bench measures the device plugin on Node, each figure Runs times.
type Bench struct {
	Node   *simnode.Node
	Runs   int
	Report *report.Table
}

// Run measures all figures.
func (b *Bench) Run(ctx context.Context) error {
	for _, latency := range latencies() {
		if err := b.Node.SetLatency(ctx, latency); err != nil {
			return err
		}
		at := fmt.Sprintf(", 8 GPUs, %s per NVML call", latency)
		if err := b.starts(ctx, at); err != nil {
			return err
		}
		if err := b.running(ctx, at); err != nil {
			return err
		}
	}
	if err := b.Node.SetLatency(ctx, 0); err != nil {
		return err
	}
	if err := b.cdiSpec(ctx); err != nil {
		return err
	}
	return b.large(ctx)
}

// large measures starts on a node with 16 GPUs.
func (b *Bench) large(ctx context.Context) error {
	if err := b.Node.Plug(ctx, 8); err != nil {
		return err
	}
	for _, latency := range latencies() {
		if err := b.Node.SetLatency(ctx, latency); err != nil {
			return err
		}
		if err := b.starts(ctx, fmt.Sprintf(", 16 GPUs, %s per NVML call", latency)); err != nil {
			return err
		}
	}
	return nil
}

// latencies are how long every NVML call takes: nothing, which shows what is
// ours, and about as long as on hardware.
func latencies() []time.Duration { return []time.Duration{0, 10 * time.Microsecond} }

// starts measures from the start of the process to its registration.
func (b *Bench) starts(ctx context.Context, at string) error {
	for _, way := range []struct{ name, strategy string }{{"plain", "envvar"}, {"CDI", "cdi-cri"}} {
		var (
			times []time.Duration
			calls int
		)
		for range b.Runs {
			if _, err := b.Node.Calls(ctx); err != nil {
				return err
			}
			p, err := start(ctx, b.Node, "--device-list-strategy", way.strategy)
			if err != nil {
				return err
			}
			seen, err := p.registered(ctx, 1)
			if err = errors.Join(err, p.stop()); err != nil {
				return err
			}
			times = append(times, seen.Sub(p.started))
			counted, err := b.Node.Calls(ctx)
			if err != nil {
				return err
			}
			calls = total(counted)
		}
		b.Report.AddTimes("plugin start → registered, "+way.name+at, times, targetStart, fmt.Sprintf("%d NVML calls until the end", calls))
	}
	return nil
}

// running measures what happens to a plugin that runs.
func (b *Bench) running(ctx context.Context, at string) error {
	p, err := start(ctx, b.Node)
	if err != nil {
		return err
	}
	for _, figure := range []func(context.Context, *process, string) error{b.rss, b.returns, b.allocates, b.xids} {
		if err := figure(ctx, p, at); err != nil {
			return errors.Join(err, p.stop())
		}
	}
	return p.stop()
}

func (b *Bench) rss(ctx context.Context, p *process, at string) error {
	timer := time.NewTimer(rssAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	kib, err := status(p.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	anon, err := status(p.cmd.Process.Pid, "RssAnon")
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: "plugin idle RSS" + at, Value: float64(kib) / 1024, Target: targetRSS, Unit: "MiB",
		Note: fmt.Sprintf("%.1f MiB of it anonymous, the rest mapped from files", float64(anon)/1024),
	})
	return nil
}

// returns measures from the kubelet's new socket to the registration.
func (b *Bench) returns(ctx context.Context, p *process, at string) error {
	var (
		times []time.Duration
		calls int
	)
	if _, err := b.Node.Calls(ctx); err != nil {
		return err
	}
	for range b.Runs {
		p.kubelet.Stop()
		n := len(p.kubelet.Registrations())
		if err := p.kubelet.Start(); err != nil {
			return err
		}
		begin := time.Now()
		seen, err := p.registered(ctx, n+1)
		if err != nil {
			return err
		}
		times = append(times, max(0, seen.Sub(begin)))
		if err := p.healthy(ctx); err != nil {
			return err
		}
	}
	counted, err := b.Node.Calls(ctx)
	if err != nil {
		return err
	}
	// A driver's events are waited for all the time, whatever the kubelet does.
	delete(counted, "nvmlEventSetWait_v2")
	calls = total(counted)
	b.Report.AddTimes("kubelet socket back → registered"+at, times, targetReturn, fmt.Sprintf("%d NVML calls in all runs", calls))
	return nil
}

// xids measures from an XID to the list that says so at the kubelet. It counts
// from the moment that the command tells that it has raised the XID, and shows
// the time from its start, which holds the start of a process, too.
func (b *Bench) xids(ctx context.Context, p *process, at string) error {
	var times, all []time.Duration
	for i := range b.Runs {
		started, told, err := b.Node.XID(ctx, i%8, 79)
		if err != nil {
			return err
		}
		seen, err := p.unhealthy(ctx)
		if err != nil {
			return err
		}
		times = append(times, max(0, seen.Sub(told)))
		all = append(all, seen.Sub(started))
		// A reload forgets XIDs.
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		if err := p.healthy(ctx); err != nil {
			return err
		}
	}
	b.Report.AddTimes("XID → Unhealthy at the kubelet"+at, times, targetXID,
		fmt.Sprintf("from the start of gpu-sim xid %.1f ms", float64(report.Median(all))/1e6))
	return nil
}

func (b *Bench) allocates(ctx context.Context, p *process, at string) error {
	u, err := p.devices(ctx, func(*pluginapi.Device) bool { return false }, 0)
	if err != nil {
		return err
	}
	var times []time.Duration
	for i := range 100 * b.Runs {
		begin := time.Now()
		if _, err := p.kubelet.Allocate(ctx, resource, u.Devices[i%len(u.Devices)].GetID()); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	b.Report.AddTimes("Allocate of 1 device"+at, times, targetAllocate, fmt.Sprintf("%d calls", len(times)))
	return nil
}

// status returns a line of /proc/PID/status, in KiB.
func status(pid int, key string) (int, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		}
	}
	return 0, fmt.Errorf("read %s: no line %s", path, key)
}

func total(calls map[string]int) int {
	n := 0
	for _, c := range calls {
		n += c
	}
	return n
}
