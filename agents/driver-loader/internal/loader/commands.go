package loader

import (
	"context"
	"errors"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// Build builds the modules of the desired driver for a kernel release, unless the store has them. An
// empty release means the running kernel.
func (l *Loader) Build(ctx context.Context, release string) (cache.Set, error) {
	o, err := l.Observe(ctx)
	if o.Kernel.Release == "" {
		return cache.Set{}, err
	}
	desired, err := l.cfg.Desired()
	if err != nil {
		return cache.Set{}, err
	}
	target, missing := o.desired(desired)
	if missing != nil {
		return cache.Set{}, *missing
	}
	k := o.Kernel
	if release != "" && release != k.Release {
		// All other fields describe the running kernel.
		k = kernel.Kernel{Release: release, Machine: k.Machine}
	}
	p, _ := o.payload(target.Digest)
	request := l.request(k, p, target.Flavour)
	compiler := k.Banner
	if headers, err := l.cfg.Builder.Places.Headers(k.Release); compiler == "" && err == nil {
		compiler = headers.Compiler
	}
	set, err := l.cache.Find(ctx, request.Key(compiler))
	if compiler == "" || err != nil {
		set, err = l.cfg.Builder.Build(ctx, request)
	}
	if err != nil {
		return cache.Set{}, err
	}
	return set, l.buildOptional(ctx, o, request, set, desired)
}

// buildOptional builds the selected optional modules that have their own sources, unless the store has them.
func (l *Loader) buildOptional(ctx context.Context, o Observation, r build.Request, base cache.Set, d Desired) error {
	for _, name := range stack.Optional(d.Options) {
		if _, separate := o.Sources[name]; !separate {
			continue
		}
		key := base.Key
		key.Flavour = build.AloneFlavour(key.Flavour, o.alone(name))
		if _, err := l.cache.Find(ctx, key); err == nil {
			continue
		}
		if _, err := l.cfg.Builder.BuildAlone(ctx, r, base, o.alone(name)); err != nil {
			return err
		}
	}
	return nil
}

// Unload unloads the driver, and returns the unloaded modules. The error has a Cause for each process
// that uses the driver.
func (l *Loader) Unload(ctx context.Context) ([]string, error) {
	unlock, err := l.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	o, err := l.Observe(ctx)
	order := stack.UnloadOrder(o.Modules)
	if len(order) == 0 {
		return nil, err
	}
	defer l.release(ctx)
	if err := l.claim(ctx, Step{Kind: Unload, Modules: order}); err != nil {
		return nil, err
	}
	o, err = l.Observe(ctx)
	order = stack.UnloadOrder(o.Modules)
	if used := stack.Used(o.Modules, order); len(used) > 0 {
		return nil, errors.Join(append(cause.Errors(InUse(used, o.Holders)), err)...)
	}
	if err := l.unload(order); err != nil {
		after, _ := l.Observe(ctx)
		return slices.DeleteFunc(order, func(name string) bool { _, still := after.Modules[name]; return still }), err
	}
	return order, nil
}
