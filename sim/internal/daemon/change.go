package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/pool"
	"outrigger.dev/sim/internal/state"
)

// maxRecord is the largest size of a record, in bytes.
const maxRecord = 64 << 10

// recordPath returns the path of the record. It is written after everything was made, and removed before
// a change.
func (d *Daemon) recordPath() string { return filepath.Join(filepath.Dir(d.cfg.Root), "made.json") }

func (d *Daemon) observe() (observed, error) {
	seen := observed{version: d.cfg.Version}
	var err error
	if seen.real, err = d.cfg.Real(); err != nil {
		return seen, err
	}
	if _, err := os.Lstat(d.cfg.Root); err == nil {
		seen.folder = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return seen, fmt.Errorf("find the simulated node: %w", err)
	}
	data, err := hostfs.ReadFile(d.recordPath(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	var r record
	if json.Unmarshal(data, &r) == nil {
		seen.made = &r
	}
	return seen, nil
}

// replace makes the wanted GPUs. If that fails, the node has none. Its folder stays, because running containers have mounts of
// it, and see the GPUs of a later success.
func (d *Daemon) replace(ctx context.Context, seen observed, want pool.Simulation) error {
	d.cfg.Log.Info("making simulated gpus", "model", want.Model, "gpus", want.GPUs)
	if err := d.forget(); err != nil {
		return err
	}
	n, err := d.open(seen, want)
	if err != nil {
		return err
	}
	err = errors.Join(d.make(ctx, n, want), n.Close())
	if err == nil {
		err = d.write(record{Version: d.cfg.Version, Simulation: want})
	}
	if err != nil {
		return errors.Join(err, d.hide())
	}
	d.announce()
	text := fmt.Sprintf("this node simulates %d GPUs of the model %s", want.GPUs, want.Model)
	d.cfg.Report(kube.Event{Reason: "GPUsSimulated", Message: text})
	return nil
}

// open returns a node with the wanted GPUs, whose driver is not loaded.
func (d *Daemon) open(seen observed, want pool.Simulation) (*node.Node, error) {
	spec, err := want.Spec(d.cfg.Name)
	if err != nil {
		return nil, err
	}
	cfg := node.Config{
		Root: d.cfg.Root, Spec: spec, Libraries: d.cfg.Libraries, Program: d.cfg.Program, Hook: d.cfg.Hook, Host: d.cfg.Host,
	}
	if seen.folder {
		n, err := node.Exchange(cfg)
		if !errors.Is(err, node.ErrNotFound) {
			return n, err
		}
		if err := d.remove(); err != nil { // a folder without a state
			return nil, err
		}
	}
	if err := node.Taken(d.cfg.Root, d.cfg.Shown, d.cfg.Host.Dev); err != nil {
		return nil, err
	}
	if err := node.Hide(d.cfg.Shown); err != nil { // mounts of a node whose folder was removed by hand
		return nil, err
	}
	return node.Create(cfg)
}

// make shows the node on the machine, loads its driver, and configures its GPUs.
func (d *Daemon) make(ctx context.Context, n *node.Node, want pool.Simulation) error {
	if err := n.Show(d.cfg.Shown); err != nil {
		return err
	}
	if err := n.State().SetLatency(want.Delay()); err != nil {
		return err
	}
	for _, g := range n.State().Show().GPUs {
		if want.Fabric == "" {
			break
		}
		if err := n.State().SetFabric(g.Slot, want.Fabric); err != nil {
			return err
		}
	}
	if err := n.SetDriver(true); err != nil {
		return err
	}
	requests, err := want.Requests()
	if err != nil || len(requests) == 0 {
		return err
	}
	for _, g := range n.State().Show().GPUs {
		if err := d.divide(ctx, n, g, requests); err != nil {
			return err
		}
	}
	return nil
}

func (d *Daemon) divide(ctx context.Context, n *node.Node, g state.GPU, requests []node.Request) error {
	activation, err := n.SetMIGMode(g, true)
	if err != nil {
		return err
	}
	if activation == state.ModePending {
		// Boards before Hopper change the mode in a reset.
		if err := n.Reset(ctx, g, 0); err != nil {
			return err
		}
	}
	_, err = n.CreateMIG(g, requests)
	return err
}

// keep restores what is missing, and follows the PCI bus of the machine.
func (d *Daemon) keep() (err error) {
	n, err := node.Open(d.cfg.Root, d.cfg.Host)
	if err != nil {
		return errors.Join(err, d.forget()) // the next step makes the GPUs again
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	d.announce()
	return errors.Join(n.Show(d.cfg.Shown), n.FollowMachine())
}

// hide removes the GPUs from the machine.
func (d *Daemon) hide() error {
	return errors.Join(d.forget(), node.Clear(d.cfg.Root), node.Hide(d.cfg.Shown))
}

func (d *Daemon) remove() error {
	if err := d.hide(); err != nil {
		return err
	}
	err := node.Delete(d.cfg.Root)
	if errors.Is(err, node.ErrNotFound) {
		err = os.RemoveAll(d.cfg.Root) // a node without a state
	}
	if err == nil {
		d.cfg.Log.Info("removed the simulated gpus of this node")
	}
	return err
}

func (d *Daemon) write(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	return hostfs.WriteFile(d.recordPath(), data, 0o644)
}

// forget removes the record: the GPUs are not complete any more.
func (d *Daemon) forget() error {
	if err := os.Remove(d.recordPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record: %w", err)
	}
	return nil
}
