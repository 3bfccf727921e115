package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
)

// addPrecompiled adds precompiled modules to the cache. It returns a misfit if they are for
// another kernel or of another flavour.
func (b *Builder) addPrecompiled(ctx context.Context, r Request, report reporter) (set cache.Set, misfit *cause.Cause, err error) {
	dir := r.Payload.Precompiled[r.Release][r.Flavour]
	if dir == "" {
		has := slices.Sorted(maps.Keys(r.Payload.Precompiled[r.Release]))
		return cache.Set{}, r.unfit(cause.ModuleSourcesMissing, fmt.Sprintf("they are of the type %s, not %s", has[0], r.Flavour)), nil
	}
	stage, err := staging.New(filepath.Join(b.Places.Store, "build"))
	if err != nil {
		return cache.Set{}, nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	report.step(StepSources, "precompiled")
	set = cache.Set{Key: r.Key(r.Banner), Built: time.Now().UTC().Truncate(time.Second)}
	files, err := precompiled(ctx, dir, stage.Dir)
	if err != nil {
		return cache.Set{}, nil, err
	}
	for _, file := range files {
		m, err := module.Read(file)
		if err != nil {
			return cache.Set{}, nil, err
		}
		if misfit := r.misfit(m); misfit != nil {
			b.Log.Info("precompiled modules do not match the kernel or the module type, building modules", "file", file, "vermagic", m.Vermagic, "license", m.License)
			return cache.Set{}, misfit, nil
		}
		if set.BuiltWith == "" {
			set.BuiltWith = "precompiled, " + m.Vermagic
		}
		if file, err = r.signed(m, file, stage.Dir); err != nil {
			return cache.Set{}, nil, err
		}
		set.Modules = append(set.Modules, cache.Module{Name: m.Name, File: file})
	}
	if len(set.Modules) == 0 {
		return cache.Set{}, r.unfit(cause.ModuleWrongRelease, "the driver has none"), nil
	}
	report.step(StepStore, "precompiled")
	set, err = cache.Cache{Dir: b.Places.Store}.Add(ctx, set)
	return set, nil, err
}

// precompiled returns the files of precompiled modules. It links modules that are distributed in parts in a folder below
// stage.
func precompiled(ctx context.Context, dir, stage string) ([]string, error) {
	parts := filepath.Join(dir, payload.PartsName)
	if _, err := os.Stat(parts); err == nil {
		return join(ctx, parts, filepath.Join(stage, payload.PartsName))
	}
	return filepath.Glob(filepath.Join(dir, "*.ko*"))
}

// misfit returns why a module does not match the kernel or the flavour; nil if it does.
func (r Request) misfit(m *module.Module) *cause.Cause {
	release, _, _ := strings.Cut(m.Vermagic, " ")
	switch flavour, shown := payload.FlavourOf(m); {
	case release != r.Release:
		return r.unfit(cause.ModuleWrongRelease, fmt.Sprintf("the module %s was built for the kernel %q", m.Name, release))
	case shown && flavour != r.Flavour:
		return r.unfit(cause.ModuleSourcesMissing, fmt.Sprintf("the module %s is of the type %s, not %s", m.Name, flavour, r.Flavour))
	}
	return nil
}

// unfit returns the cause for precompiled modules that do not match.
func (r Request) unfit(code cause.Code, why string) *cause.Cause {
	return &cause.Cause{
		Code: code, Subject: "driver " + r.Payload.Version, Text: "its precompiled modules for the kernel " + r.Release + " cannot be used: " + why + "; and it has no sources to build modules from",
		Fix: "use a driver image with modules for the kernel " + r.Release + ", or an image with sources",
	}
}

// signed returns the path of a module, or of a signed copy in dir if the module has no signature and
// the request has a Signer. It keeps the signature of a distribution.
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
	return path, staging.Explain(path, os.WriteFile(path, data, 0o600))
}
