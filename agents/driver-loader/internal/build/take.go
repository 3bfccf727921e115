package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/staging"
)

// take adds modules to the cache that were built elsewhere. They do not fit if they are of
// another kernel or of the other flavour.
func (b *Builder) take(ctx context.Context, r Request, dir string, report *reporter) (set cache.Set, fit bool, err error) {
	stage, err := staging.New(filepath.Join(b.Places.Store, "build"))
	if err != nil {
		return cache.Set{}, false, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	report.step(StepSources, "precompiled")
	set = cache.Set{Key: r.Key(r.Banner), Built: time.Now().UTC().Truncate(time.Second)}
	files, err := filepath.Glob(filepath.Join(dir, "*.ko*"))
	if err != nil {
		return cache.Set{}, false, err
	}
	for _, file := range files {
		m, err := module.Read(file)
		if err != nil {
			return cache.Set{}, false, err
		}
		if !r.fits(m) {
			b.Log.Info("precompiled modules do not fit, building modules", "file", file, "vermagic", m.Vermagic, "license", m.License)
			return cache.Set{}, false, nil
		}
		if set.BuiltWith == "" {
			set.BuiltWith = "precompiled, " + m.Vermagic
		}
		if file, err = r.signed(m, file, stage.Dir); err != nil {
			return cache.Set{}, false, err
		}
		set.Modules = append(set.Modules, cache.Module{Name: m.Name, File: file})
	}
	if len(set.Modules) == 0 {
		return cache.Set{}, false, nil
	}
	report.step(StepStore, "precompiled")
	set, err = cache.Cache{Dir: b.Places.Store}.Add(ctx, set)
	return set, err == nil, err
}

// fits reports whether a module is for the kernel, and of the flavour.
func (r Request) fits(m *module.Module) bool {
	release, _, _ := strings.Cut(m.Vermagic, " ")
	return release == r.Release && (m.License == "NVIDIA") == (r.Flavour == payload.Proprietary)
}

// signed returns the file of a module, or a signed copy of it in dir if it has no signature
// and there is a key. The signature of a distribution is worth more than one's own.
func (r Request) signed(m *module.Module, file, dir string) (string, error) {
	if r.Signer == nil || m.Signature != nil {
		return file, nil
	}
	data, err := r.Signer.Sign(m.Data, HashFor(""))
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	path := filepath.Join(dir, name+".ko")
	return path, staging.Explained(path, os.WriteFile(path, data, 0o600))
}
