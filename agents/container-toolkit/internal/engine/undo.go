package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"outrigger.dev/pkg/hostfs"
)

// Undo reverts Apply byte for byte. It covers each config of the engine that has a record, or
// only the file that Config.ConfigPath names. If a file was edited after Apply, Undo removes
// only the parts that Apply wrote.
func (k *Keeper) Undo(ctx context.Context) (Plan, error) {
	unlock, err := k.lock()
	if err != nil {
		return Plan{}, err
	}
	defer unlock()
	p, err := k.unlessEdited(ctx, func(ctx context.Context) (Plan, error) {
		p, err := k.UndoPlan(ctx)
		if err == nil {
			k.step("undo")
			err = k.write(p.Changes)
		}
		return p, err
	})
	if err != nil {
		return p, err
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
