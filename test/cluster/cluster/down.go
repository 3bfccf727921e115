package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"outrigger.dev/test/cluster/internal/cgroup"
	"outrigger.dev/test/cluster/internal/fabric"
	"outrigger.dev/test/cluster/internal/machine"
	"outrigger.dev/test/cluster/internal/plan"
)

// Down removes the cluster on this machine, even if only parts of it remain, and restores the
// machine's settings. It succeeds if there is no cluster.
func Down(ctx context.Context, w io.Writer) error {
	if w == nil {
		w = io.Discard
	}
	if err := checkRoot(); err != nil {
		return fmt.Errorf("take cluster down: %w", err)
	}
	p := newProgress(w)
	lock, err := machine.TakeLock(ctx, p.busy)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := errors.Join(clean(ctx), removeStateDir()); err != nil {
		return fmt.Errorf("take cluster down: %w", err)
	}
	p.say("cluster is down")
	return nil
}

// Down removes the cluster and everything that belongs to it from the machine.
func (c *Cluster) Down(ctx context.Context) error { return Down(ctx, c.progress.w) }

// clean undoes all changes of create, whatever the state of the cluster. It keeps the state folder,
// because the caller holds a lock on it.
func clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	tree, err := cgroup.Find(cgroup.MountPoint, machine.Cgroup)
	if err != nil {
		return err
	}
	// When its first process ends, the processes, mounts and links of a node end too.
	if err := tree.Kill(ctx); err != nil {
		return err
	}
	if err := errors.Join(
		fabric.New(plan.Plan{}, machine.Fabric()).Remove(),
		tree.Remove(ctx),
		machine.UnmountBelow(machine.DataDir),
	); err != nil {
		return err
	}
	if err := os.RemoveAll(machine.DataDir); err != nil {
		return fmt.Errorf("remove cluster data: %w", err)
	}
	state, err := machine.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(machine.RestoreSysctls(state.Sysctls), tree.RestoreControllers(state.Controllers), machine.Forget())
}

// removeStateDir removes the state folder. It is the last step, because the lock is on this folder.
func removeStateDir() error {
	if err := os.RemoveAll(machine.StateDir); err != nil {
		return fmt.Errorf("remove cluster state: %w", err)
	}
	return nil
}
