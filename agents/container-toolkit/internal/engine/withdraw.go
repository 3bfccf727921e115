package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"outrigger.dev/agents/container-toolkit/internal/rawjson"
)

// Withdraw reverts the config as Undo does, and makes a running engine unload the runtimes.
func (k *Keeper) Withdraw(ctx context.Context) (Plan, error) {
	t, locateErr := k.locate(ctx)
	if locateErr != nil {
		p, err := k.Undo(ctx)
		return p, cmp.Or(err, locateErr)
	}
	gone := func(ctx context.Context) bool {
		l, err := k.ask(ctx, t)
		return err == nil && !l.hasAny(k.config.Desired())
	}
	var reloadErr error
	if t.engine == Docker && t.process != nil && !gone(ctx) {
		reloadErr = k.unloadFromDocker(ctx, t, gone)
	}
	p, err := k.Undo(ctx)
	if err != nil || p.Empty() || t.process == nil || t.engine == Docker || gone(ctx) {
		return p, cmp.Or(err, reloadErr)
	}
	return p, k.reload(ctx, t, gone)
}

// unloadFromDocker makes a running dockerd unload the runtimes. Docker keeps settings that are
// missing in its config file. Therefore this function writes empty settings until Undo.
func (k *Keeper) unloadFromDocker(ctx context.Context, t target, gone func(context.Context) bool) error {
	unlock, err := k.lock()
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := k.records.load(t.engine, t.main)
	if err != nil {
		return err
	}
	f := rec.find(t.main)
	now, err := k.host.read(t.main)
	if err != nil || f == nil {
		return err // without a record, our changes are not known
	}
	if _, ok := f.original(now); !ok {
		// A person has edited the file since. Undo must keep that edit.
		old, err := original(t, file{path: t.main, text: now}, f)
		if err != nil {
			return fmt.Errorf("read %s: %w", t.main, err)
		}
		f.Before, f.Existed, f.Wrote = old, old != nil, [][]byte{now}
	}
	text, err := withoutRuntimes(now, f.Before, k.config.Desired())
	if err != nil {
		return fmt.Errorf("edit %s: %w", t.main, err)
	}
	f.Wrote = append(f.Wrote, text)
	if err := k.save(rec); err != nil {
		return err
	}
	k.step("forget in docker")
	if err := k.write([]Change{{Path: t.main, Before: now, After: text}}); err != nil {
		return err
	}
	return k.reload(ctx, t, gone)
}

// withoutRuntimes returns daemon.json with the original settings, or with explicit empty
// settings in place of ours if there were none. The parameter now is the present content,
// before is the original content.
func withoutRuntimes(now, before []byte, d Desired) ([]byte, error) {
	text, hasBOM := bytes.CutPrefix(now, bom())
	before = bytes.TrimPrefix(before, bom())
	var err error
	set := func(value string, keys ...string) {
		if err == nil {
			text, err = rawjson.Set(text, keys, value)
		}
	}
	for _, r := range d.Runtimes {
		if old := rawjson.Get(before, "runtimes", r.Name); old != "" {
			set(old, "runtimes", r.Name)
		} else {
			text = rawjson.Delete(text, "runtimes", r.Name)
		}
	}
	if rawjson.Get(text, "runtimes") == "" {
		set("{}", "runtimes")
	}
	if equalJSON(rawjson.Get(text, "default-runtime"), d.Default) {
		set(cmp.Or(rawjson.Get(before, "default-runtime"), `"runc"`), "default-runtime")
	}
	if hasBOM {
		text = append(bom(), text...)
	}
	return text, err
}
