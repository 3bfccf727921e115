package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/reconcile"
)

// maxLinks limits the size of the record of links, in bytes.
const maxLinks = 4 << 20

// nodeKeeper creates the device nodes that the driver has not created, and the links in
// /dev/char to all device nodes of the driver.
type nodeKeeper struct {
	config devnode.Config
	// record is the file that lists the links made since the boot, for undo. It does not
	// survive a boot, and neither do the links.
	record string
	log    *slog.Logger
	last   reconcile.Status
}

// nodeKeeper returns nil if the agent must not create device nodes.
func (s *settings) nodeKeeper(log *slog.Logger) *nodeKeeper {
	if !s.control {
		return nil
	}
	return &nodeKeeper{
		config: devnode.Config{Proc: s.host.ProcRoot, Dev: s.root.Dev(), HostDev: s.root.HostDev(), Char: "/dev/char"},
		record: filepath.Join(filepath.Dir(s.pidFile), "links.json"), log: log,
	}
}

// reconcile creates missing device nodes and links. It only logs an error, because a missing
// node also makes the next step fail: the read of the GPUs or the CDI specs.
func (k *nodeKeeper) reconcile() {
	done, err := devnode.Keep(k.config)
	if len(done) > 0 {
		paths := make([]string, 0, len(done))
		for _, s := range done {
			paths = append(paths, s.Path)
		}
		k.log.Info("device nodes and links created", "paths", paths)
		err = errors.Join(err, k.recordLinks(done))
	}
	err = errors.Join(err, k.config.Left())
	if errors.Is(err, fs.ErrNotExist) { // there is no driver
		err = nil
	}
	if k.last.Set(err) && err != nil {
		k.log.Warn("cannot create all device nodes of the driver", "err", err)
	}
}

// recordLinks adds the links of a plan to the record.
func (k *nodeKeeper) recordLinks(done devnode.Plan) error {
	known, err := k.recordedLinks()
	if err != nil {
		return err
	}
	for _, s := range done {
		if s.Target != "" {
			known = append(known, devnode.Step{Path: s.Path, Target: s.Target})
		}
	}
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return hostfs.WriteFile(k.record, data, 0o600)
}

func (k *nodeKeeper) recordedLinks() (devnode.Plan, error) {
	var p devnode.Plan
	data, err := hostfs.ReadFile(k.record, maxLinks)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of created links to device nodes: %w", err)
	}
	return p, nil
}

// undo removes the recorded links. Device nodes stay, because containers may use them.
func (k *nodeKeeper) undo() error {
	if k == nil {
		return nil
	}
	made, err := k.recordedLinks()
	if err = errors.Join(err, made.Undo()); err != nil {
		return err
	}
	if err := os.Remove(k.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// withNodes is a source that creates device nodes before it reads the GPUs.
type withNodes struct {
	gpu.Source
	nodes *nodeKeeper
}

func (s withNodes) Snapshot(ctx context.Context) (*gpu.Node, error) {
	s.nodes.reconcile()
	return s.Source.Snapshot(ctx)
}
