package dcgmexporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/bench/internal/endurance"
	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/simnode"
)

const (
	// soakInterval is the time between two readings in a soak: the minimum that the agent accepts.
	// Time runs soakFactor times as fast as with interval.
	soakInterval = 200 * time.Millisecond
	soakFactor   = int(interval / soakInterval)
	// window is the window of the agent's counts of recent events. The agent's default is 5
	// minutes.
	window = 5 * time.Minute / time.Duration(soakFactor)
	// unloadEvery is the number of rounds after which the driver is unloaded and loaded.
	unloadEvery = 8
	// clients is the number of concurrent scrapes.
	clients = 4
)

// Soak scrapes the exporter for a long time on Node, whose GPUs are divided into seven MIG devices
// each. Meanwhile, errors are reported and the driver is unloaded and loaded. Soak checks for
// leaks.
type Soak struct {
	Node *simnode.Node
	// Scrapes is the number of scrapes after the warm-up, and Readings is the number of readings of
	// each GPU.
	Scrapes, Readings int
	// Dir is the folder for the agent's log and its memory samples.
	Dir string
	Out io.Writer
}

// Run runs the soak and returns an error if the exporter leaks something.
func (s *Soak) Run(ctx context.Context) (err error) {
	if err := s.Node.Partition(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Node.Unpartition(ctx)) }()
	b := Bench{Node: s.Node}
	up := scene{shows: dividedShows}
	p, _, err := b.begin(ctx, up, soakInterval, fmt.Sprintf("--xid-count-window-size=%d", window.Milliseconds()),
		fmt.Sprintf("--clock-events-count-window-size=%d", window.Milliseconds()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(), p.KeepLog(filepath.Join(s.Dir, Name+".log"))) }()
	batch, err := s.Node.Batch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	scraped, read, loads, lowest := 0, 0, 0, 0.0
	return endurance.Test{
		Agent: Name, Process: p, Dir: s.Dir, Out: s.Out,
		Round: func(ctx context.Context, i int) error {
			if i == 0 {
				scraped, read, loads = 0, 0, 0
			}
			if err := batch.Do("xid", "0", "31"); err != nil {
				return err
			}
			n, least, err := s.work(ctx, p)
			if err != nil {
				return err
			}
			scraped += s.Scrapes / endurance.Rounds / clients * clients
			read, lowest = read+n, least
			// The last round of the warm-up includes a reload, so that all lasting allocations
			// exist.
			if (i+1)%unloadEvery != 0 {
				return nil
			}
			loads++
			return s.reload(ctx, p, batch, up)
		},
		// Concurrent scrapes allocate temporary memory, so use the lowest value.
		Memory: func() (float64, error) { return lowest, nil },
		Done: func() string {
			hours := (time.Duration(read) * interval).Hours()
			return fmt.Sprintf("%d scrapes, %d readings of each GPU (%.1f h of them), the driver was loaded %d times", scraped, read, hours, loads)
		},
	}.Run(ctx)
}

// work scrapes the exporter for one round, while the exporter reads the GPUs. It returns the number
// of readings of each GPU, and the lowest memory of the exporter in that time, in MiB.
func (s *Soak) work(ctx context.Context, p *process.Process) (read int, lowest float64, err error) {
	g, ctx := errgroup.WithContext(ctx)
	for range clients {
		g.Go(func() error { return scrape(ctx, p, s.Scrapes/endurance.Rounds/clients) })
	}
	g.Go(func() (err error) {
		read, lowest, err = s.readings(ctx, p, s.Readings/endurance.Rounds)
		return err
	})
	err = g.Wait()
	return read, lowest, err
}

// scrape scrapes the exporter n times.
func scrape(ctx context.Context, p *process.Process, n int) error {
	for range n {
		if _, _, err := p.Scrape(ctx); err != nil {
			return err
		}
	}
	return nil
}

// symbol is an NVML function that the exporter calls once per reading of a GPU.
const symbol = "nvmlDeviceGetFieldValues"

// readings waits until each GPU was read n times. It returns the number of readings of each GPU,
// and the lowest memory of the exporter in that time, in MiB.
func (s *Soak) readings(ctx context.Context, p *process.Process, n int) (read int, lowest float64, err error) {
	if _, err := s.Node.Calls(ctx); err != nil {
		return 0, 0, err
	}
	for lowest = math.Inf(1); ; {
		if !pace.Pause(ctx, time.Second) {
			return 0, 0, context.Cause(ctx)
		}
		m, err := p.Memory()
		if err != nil {
			return 0, 0, err
		}
		lowest = min(lowest, m.RSS)
		calls, err := s.Node.Calls(ctx)
		if err != nil {
			return 0, 0, err
		}
		if read += calls[symbol]; read >= n*gpus {
			return read / gpus, lowest, nil
		}
	}
}

// reload unloads the driver and loads it again. This destroys the GPU instances, and reload creates
// them again.
func (s *Soak) reload(ctx context.Context, p *process.Process, batch *simnode.Batch, up scene) error {
	if err := errors.Join(batch.Do("set", "driver=off"), batch.Do("set", "driver=on")); err != nil {
		return err
	}
	if err := batch.Do(simnode.Sevenths()...); err != nil {
		return err
	}
	return p.Metric(ctx, up.shows)
}
