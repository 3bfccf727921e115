package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// Apply writes the desired config, and returns the changes. It first records on disk the data
// that Undo needs. If the engine's own parser rejects the result, or would lose a setting,
// Apply restores the files and returns an error.
func (k *Keeper) Apply(ctx context.Context) (Plan, error) {
	unlock, err := k.lock()
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
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
		err = check(ctx)
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
		if err := k.host.write(c.Path, c.After); err != nil {
			return err
		}
	}
	return nil
}

// rollBack restores the files to their content before a plan, in reverse order.
func (k *Keeper) rollBack(p Plan, before record) error {
	var errs []error
	for _, c := range slices.Backward(p.Changes) {
		if now, err := k.host.read(c.Path); err == nil && sameContent(now, c.Before) {
			continue
		}
		errs = append(errs, k.host.write(c.Path, c.Before))
	}
	for _, f := range p.record.Files {
		if before.find(f.Path) == nil {
			k.host.removeFolders(f.Path, f.Folder)
		}
	}
	before.Engine, before.Config = p.record.Engine, p.record.Config
	err := k.save(before)
	if err := errors.Join(append(errs, err)...); err != nil {
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

// Undo reverts Apply byte for byte. It covers each config of the engine that has a record, or
// only the file that Config.ConfigPath names. If a file was edited after Apply, Undo removes
// only the parts that Apply wrote.
func (k *Keeper) Undo(ctx context.Context) (Plan, error) {
	unlock, err := k.lock()
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
	p, err := k.UndoPlan(ctx)
	if err != nil {
		return p, err
	}
	k.step("undo")
	if err := k.write(p.Changes); err != nil {
		return Plan{}, err
	}
	recs, err := k.recorded(p.target)
	if err != nil {
		return Plan{}, err
	}
	for _, rec := range recs {
		for _, f := range slices.Backward(rec.Files) {
			k.step("clean " + filepath.Base(f.Path))
			k.clean(f)
		}
		k.step("forget")
		if err := k.save(record{Engine: rec.Engine, Config: rec.Config}); err != nil {
			return Plan{}, err
		}
	}
	if !p.Empty() {
		k.log.Info("configuration of the container engine reverted", "engine", p.Engine, "files", paths(p.Changes))
	}
	return p, nil
}

// clean removes the temporary files of killed processes, and the folders created for a file.
func (k *Keeper) clean(f fileRecord) {
	real, err := k.host.path(f.Path)
	if err != nil {
		return
	}
	_ = hostfs.RemoveLeftoversIn(k.host.staging(real), real) // leftovers do no harm
	k.host.removeFolders(f.Path, f.Folder)
}

// recorded returns the records that Undo reverts. t has no paths if the engine was not found.
func (k *Keeper) recorded(t target) ([]record, error) {
	all, err := k.records.all(k.config.Engine)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r record) bool {
		named := k.config.ConfigPath
		return named != "" && r.Config != named && r.DropIn != named && r.Config != t.main
	}), nil
}

// UndoPlan returns the changes that Undo would make. It writes nothing.
func (k *Keeper) UndoPlan(ctx context.Context) (Plan, error) {
	p := Plan{Engine: k.config.Engine}
	t, err := k.locate(ctx)
	if err != nil {
		t.main = ""
	}
	p.target = t
	recs, errRecords := k.recorded(t)
	if errRecords != nil {
		return p, errRecords
	}
	if len(recs) == 0 {
		if err != nil {
			return p, err
		}
		return k.undoUnrecorded(p)
	}
	// The records name the files, even if the engine is not found.
	for _, rec := range recs {
		t := t.withPathsOf(rec)
		for _, f := range slices.Backward(rec.Files) {
			text, err := k.host.read(f.Path)
			if err != nil {
				return p, err
			}
			old, err := original(t, file{path: f.Path, text: text}, &f)
			if err != nil {
				return p, fmt.Errorf("revert the changes in %s: %w", f.Path, err)
			}
			if text == nil && old != nil {
				p.Notes = append(p.Notes, f.Path+" was removed by another program or user, and is not restored")
			} else if !sameContent(text, old) {
				p.Changes = append(p.Changes, Change{Path: f.Path, Before: text, After: old})
			}
		}
	}
	if p.Engine == Docker && !p.Empty() {
		p.Notes = append(p.Notes, "Docker keeps runtimes that its config no longer names until it is restarted")
	}
	return p, nil
}

// undoUnrecorded plans the removal of the parts that are recognized without a record.
func (k *Keeper) undoUnrecorded(p Plan) (Plan, error) {
	files, err := k.files(p.target)
	if err != nil {
		return p, err
	}
	for _, f := range files {
		text := f.text
		if p.Engine == Docker {
			if k.config.Recognize {
				text = removeDockerRuntimes(text, k.config.Desired())
			}
		} else if text, err = original(p.target, f, nil); err != nil {
			return p, fmt.Errorf("revert the changes in %s: %w", f.path, err)
		}
		if !sameContent(text, f.text) {
			p.Changes = append(p.Changes, Change{Path: f.path, Before: f.text, After: text})
		}
	}
	if !p.Empty() {
		p.Notes = append(p.Notes, "there is no record of the changes: only the settings that nvidia-container-toolkit can recognize as its own are removed")
	}
	return p, nil
}

func paths(changes []Change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = c.Path
	}
	return out
}
