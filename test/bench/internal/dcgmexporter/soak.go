package dcgmexporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"outrigger.dev/test/bench/internal/endurance"
	"outrigger.dev/test/bench/internal/simnode"
)

// unloadEvery is the number of rounds after which the driver is unloaded and loaded.
const unloadEvery = 8

// Soak scrapes the exporter for a long time on Node, which has 8 whole GPUs, while errors are
// reported and the driver comes and goes. It checks for leaks.
type Soak struct {
	Node *simnode.Node
	// Scrapes is the number of scrapes after the warm-up.
	Scrapes int
	// Dir is the folder for the agent's log and its memory samples.
	Dir string
	Out io.Writer
}

// Run runs the soak and returns an error if the exporter leaks something.
func (s *Soak) Run(ctx context.Context) (err error) {
	b := Bench{Node: s.Node}
	up := scene{shows: `(?m)^gpu_up\{gpu="7",.* 1$`}
	p, _, err := b.begin(ctx, up)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(), p.KeepLog(filepath.Join(s.Dir, Name+".log"))) }()
	batch, err := s.Node.Batch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	scraped, loads := 0, 0
	return endurance.Test{
		Agent: Name, Process: p, Dir: s.Dir, Out: s.Out,
		Round: func(ctx context.Context, i int) error {
			if i == 0 {
				scraped, loads = 0, 0
			}
			for range s.Scrapes / endurance.Rounds {
				if _, _, err := p.Scrape(ctx); err != nil {
					return err
				}
				scraped++
			}
			if err := batch.Do("xid", "0", "31"); err != nil {
				return err
			}
			// The last round of the warm-up does this too, so that all lasting allocations exist.
			if (i+1)%unloadEvery != 0 {
				return nil
			}
			loads++
			if err := errors.Join(batch.Do("set", "driver=off"), batch.Do("set", "driver=on")); err != nil {
				return err
			}
			return p.Metric(ctx, up.shows)
		},
		Done: func() string { return fmt.Sprintf("%d scrapes, the driver was loaded %d times", scraped, loads) },
	}.Run(ctx)
}
