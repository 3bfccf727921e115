package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/depmod"
	"outrigger.dev/agents/driver-loader/internal/loader"
)

// Observe reads the Facts that an observation of the loader does not have.
func Observe(ctx context.Context, l *loader.Loader, cfg loader.Config, o loader.Observation) Facts {
	f := Facts{Signer: cfg.Signer != nil, Repositories: cfg.Builder.Repositories.Program()}
	compiler := o.Kernel.Banner
	h, err := cfg.Builder.Places.Headers(o.Kernel.Release)
	if f.Headers, f.HeadersErr = h.Build, err; err == nil {
		compiler = h.Compiler
	}
	chosen, err := build.ChooseCompiler(ctx, compiler)
	f.Compiler, f.CompilerErr = chosen.Version, err
	f.Free, f.FreeErr = free(cfg.Store)
	f.Parts = parts(cfg, o)
	if o.Running.Version != "" {
		f.Holders, f.HoldersErr = l.Holders(ctx)
	}
	return f
}

// free returns the number of free bytes for a folder, which might not exist yet.
func free(dir string) (uint64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return s.Bavail * uint64(s.Bsize), nil //nolint:gosec // a size of blocks is positive
		}
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		return 0, err
	}
}

// parts returns the value of Facts.Parts.
func parts(cfg loader.Config, o loader.Observation) map[string]string {
	out := map[string]string{}
	index, err := depmod.Read(filepath.Join(cfg.Kernel.Modules, o.Kernel.Release))
	for _, name := range loader.Prerequisites() {
		out[name] = ""
		if _, loaded := o.Modules[name]; loaded {
			out[name] = "loaded"
			continue
		}
		if err != nil {
			continue
		}
		switch files, err := index.Files(name); {
		case err != nil:
		case len(files) == 0:
			out[name] = "built in"
		default:
			out[name] = "installed; the agent loads it before the driver"
		}
	}
	return out
}
