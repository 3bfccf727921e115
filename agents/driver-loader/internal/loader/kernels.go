package loader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/garbage"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/reconcile"
)

// kernelInterval is the time between looks for a new kernel. A kernel and its headers are built for when
// they have been there for this time, because package managers unpack them file by file.
const kernelInterval = time.Minute

// NextKernel describes the modules for an installed update of the running kernel.
type NextKernel struct {
	// Release is the release of the kernel, as uname -r prints it after the reboot; "" without such a
	// kernel, and if the driver needs no build for it.
	Release string
	// Built is set if the store has the modules. Otherwise, Cause is the reason, or nil if they were not built yet.
	Built bool
	Cause *cause.Cause

	// build is set if a build can help now. It may have failed before, so Cause does not decide.
	build   bool
	request build.Request
}

// NextKernel returns the newest kernel that the node can boot, if that updates the running one, and whether the
// store has the modules of the desired driver for it. A kernel with another flavour, such as a kernel for debugging,
// is not an update.
func (l *Loader) NextKernel(ctx context.Context, o Observation, d Desired) NextKernel {
	release := o.Kernel.Release
	for _, installed := range garbage.Installed(l.cfg.Kernel.Modules) {
		if kernelFlavour(installed) == kernelFlavour(release) && compareReleases(installed, release) > 0 {
			release = installed
		}
	}
	target, _, missing := o.target(d)
	p, _ := o.payload(target.Digest)
	_, precompiled := p.Precompiled[release]
	if release == o.Kernel.Release || release == "" || missing != nil || o.Host != "" || precompiled || p.Sources[target.Flavour] == "" {
		return NextKernel{}
	}
	k := o.Kernel
	k.Release, k.Banner = release, ""
	next := NextKernel{Release: release, request: l.request(k, p, target.Flavour)}
	next.request.Background = true
	headers, err := l.cfg.Builder.Places.Headers(release)
	if err == nil {
		sets, _ := l.cache.List() // sets that cannot be read are built again
		key := next.request.Key(headers.Compiler)
		next.Built = slices.ContainsFunc(sets, func(s cache.Set) bool { return s.Key == key })
		_, err = build.ChooseCompiler(ctx, headers.Compiler)
	}
	switch why, pending := l.cfg.Builder.Failure(ctx, next.request); {
	case next.Built:
	case err != nil:
		why := AsCause("kernel "+release, err)
		next.Cause = &why
	default:
		next.Cause, next.build = why, !pending
	}
	return next
}

// Kernels builds the modules for a new kernel before the node boots it, with the lowest priority.
type Kernels struct {
	loader *Loader
	loop   *reconcile.Loop
	log    *slog.Logger
	// seen is the release for which the last step found everything that its build needs, or "".
	seen string

	next atomic.Pointer[NextKernel]
}

// NewKernels returns the Kernels of a node. Run starts them.
func NewKernels(l *Loader) *Kernels {
	k := &Kernels{loader: l, log: l.cfg.Log}
	k.loop = reconcile.New(reconcile.Config{Name: "kernels", Step: k.step, Log: k.log})
	return k
}

// Run builds modules for new kernels until ctx ends.
func (k *Kernels) Run(ctx context.Context) error { return k.loop.Run(ctx) }

// Next returns the state of the modules for the new kernel.
func (k *Kernels) Next() NextKernel {
	if next := k.next.Load(); next != nil {
		return *next
	}
	return NextKernel{}
}

func (k *Kernels) step(ctx context.Context) (reconcile.Result, error) {
	again := reconcile.Result{After: kernelInterval}
	if k.loader.State().Kind != Done {
		return again, nil // the driver of the running kernel comes first
	}
	o, d, err := k.loader.observeDriverAndDesired()
	if err != nil {
		return again, nil //nolint:nilerr // the loader reports the error
	}
	next := k.loader.NextKernel(ctx, o, d)
	k.next.Store(&next)
	seen := k.seen
	if k.seen = next.Release; !next.build {
		k.seen = ""
	}
	if k.seen == "" || k.seen != seen {
		return again, nil
	}
	k.log.Info("building the modules for a new kernel", "kernel", next.Release)
	err = k.loader.background.run(ctx, func(ctx context.Context) error {
		_, err := k.loader.cfg.Builder.Build(ctx, next.request)
		return err
	})
	switch {
	case err == nil:
		k.log.Info("modules for the new kernel are in the store", "kernel", next.Release)
	case errors.Is(err, context.Canceled), cause.Is(err, cause.StoreBusy):
		return again, nil // the driver of the running kernel is being built
	default:
		k.log.Warn("cannot build the modules for the new kernel", "kernel", next.Release, "err", err)
	}
	after := k.loader.NextKernel(ctx, o, d)
	k.next.Store(&after)
	return again, nil
}
