package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Apply writes the desired config, and returns the changes. It first records on disk the data
// that Undo needs. If the engine's own parser rejects the result, or would lose a setting,
// Apply restores the files and returns an error. An edit of another program or user meanwhile stays.
func (k *Keeper) Apply(ctx context.Context) (Plan, error) {
	unlock, err := k.lock()
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
	return k.unlessEdited(ctx, k.apply)
}

// unlessEdited makes a change. It begins again if another program or user edits a file meanwhile.
func (k *Keeper) unlessEdited(ctx context.Context, change func(context.Context) (Plan, error)) (Plan, error) {
	const tries = 5
	for try := 1; ; try++ {
		p, err := change(ctx)
		if !errors.Is(err, errEdited) || try == tries || !k.pause(ctx) {
			return p, err
		}
	}
}

func (k *Keeper) apply(ctx context.Context) (Plan, error) {
	p, err := k.Plan(ctx)
	if err != nil {
		return p, err
	}
	if p.Empty() {
		if p.record.Written == (moment{}) && len(p.record.Files) == 0 {
			return p, nil
		}
		return p, k.save(p.record)
	}
	check, err := k.checker(ctx, p)
	if err != nil {
		return Plan{}, err
	}
	before, err := k.records.load(p.record.Engine, p.record.Config)
	if err != nil {
		return Plan{}, err
	}
	p.record.Written = k.host.now()
	k.step("record")
	if err := k.save(p.record); err != nil {
		return Plan{}, err
	}
	err = k.write(p.Changes)
	if err == nil {
		k.step("check")
		if err = check(ctx); err != nil {
			err = cmp.Or(k.edited(p), err)
		}
	}
	if err != nil {
		return Plan{}, errors.Join(err, k.rollBack(p, before))
	}
	k.log.Info("container engine configured", "engine", p.Engine, "files", paths(p.Changes))
	return p, nil
}

func (k *Keeper) save(rec record) error {
	if err := k.records.save(rec); err != nil {
		return fmt.Errorf("record the original config: %w", err)
	}
	return nil
}

func (k *Keeper) write(changes []Change) error {
	for _, c := range changes {
		if c.After != nil {
			real, err := k.host.path(filepath.Dir(c.Path))
			if err == nil {
				err = os.MkdirAll(real, 0o755)
			}
			if err != nil {
				return err
			}
		}
		k.step("write " + filepath.Base(c.Path))
		if err := k.host.replace(c.Path, c.Before, c.After); err != nil {
			return err
		}
	}
	return nil
}

// edited returns an error if a file that a plan has read or written was edited since.
func (k *Keeper) edited(p Plan) error {
	for _, f := range p.read {
		text := f.text
		if i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Path == f.path }); i >= 0 {
			text = p.Changes[i].After
		}
		if err := k.host.has(f.path, text); err != nil {
			return err
		}
	}
	return nil
}

// rollBack restores the files that a plan has changed, in reverse order. A file that was edited since stays. Then
// the record of the plan stays too, because Undo needs the content that the plan wrote.
func (k *Keeper) rollBack(p Plan, before record) error {
	var errs []error
	for _, c := range slices.Backward(p.Changes) {
		if k.host.has(c.Path, c.Before) == nil {
			continue
		}
		err := k.host.replace(c.Path, c.After, c.Before)
		if errors.Is(err, errEdited) {
			before, err = p.record, nil
		}
		errs = append(errs, err)
	}
	for _, f := range p.record.Files {
		if before.find(f.Path) == nil {
			k.host.removeFolders(f.Path, f.Folder)
		}
	}
	before.Engine, before.Config = p.record.Engine, p.record.Config
	if err := errors.Join(append(errs, k.save(before))...); err != nil {
		return fmt.Errorf("revert the change: %w", err)
	}
	return nil
}

// lock excludes other processes that change configs of engines. unlock removes the folders of
// the records if they are empty.
func (k *Keeper) lock() (unlock func(), err error) {
	if err := os.MkdirAll(k.records.dir, 0o700); err != nil {
		return nil, fmt.Errorf("record the original config: %w", err)
	}
	dir, err := os.Open(k.records.dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: another process configures a container engine: %w", k.records.dir, err), dir.Close())
	}
	return func() {
		k.records.tidy()
		_ = dir.Close()
	}, nil
}

// tidy removes the folders of the records if they are empty.
func (r records) tidy() {
	if os.Remove(r.dir) == nil {
		_ = os.Remove(filepath.Dir(r.dir)) // Remove fails if the folder has other files
	}
}

func paths(changes []Change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = c.Path
	}
	return out
}
