package nvml

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// library is a loaded libnvidia-ml.so.1. It is never unloaded, because the dynamic linker keeps a
// library after the program is bound to its symbols.
type library struct {
	path   string
	api    gonvml.Interface
	lookup func(symbol string) error

	mu sync.RWMutex
	// known has the symbols that were looked up, and whether the library has them.
	known map[string]bool
}

// hasSymbol reports whether the library has a symbol.
func (l *library) hasSymbol(symbol string) bool {
	l.mu.RLock()
	has, known := l.known[symbol]
	l.mu.RUnlock()
	if known {
		return has
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]bool{}
	}
	has = l.lookup(symbol) == nil
	l.known[symbol] = has
	return has
}

// openError means that the dynamic loader cannot open the library.
type openError struct {
	path string
	err  error
}

func (e *openError) Error() string { return fmt.Sprintf("load %s: %s", e.path, e.err) }

func (e *openError) Unwrap() error { return e.err }

// load opens the library and checks that it has the symbols that every Session needs. It does not
// call them.
func load(path string) (*library, error) {
	handle := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := handle.Open(); err != nil {
		return nil, &openError{path: path, err: err}
	}
	lib := &library{path: path, api: gonvml.New(gonvml.WithLibraryPath(path)), lookup: handle.Lookup}
	var lacks []string
	for _, symbol := range []string{symInit, symShutdown, symErrorString} {
		if !lib.hasSymbol(symbol) {
			lacks = append(lacks, symbol)
		}
	}
	if len(lacks) > 0 {
		err := fmt.Errorf("load %s: it lacks %s (a driver of R450 or newer is needed)", path, strings.Join(lacks, ", "))
		return nil, errors.Join(err, handle.Close())
	}
	return lib, nil
}

// library loads the library, or returns the loaded one. It returns an error if the library was
// replaced on disk, because a process cannot replace a loaded library. The caller holds s.mu.
func (s *Session) library() (*library, error) {
	if s.cfg.API != nil {
		return s.lib, nil
	}
	path, findErr := s.cfg.LibraryPath, error(nil)
	if path == "" {
		path, findErr = s.cfg.DriverRoot.FindLibrary(driverroot.NVML)
	}
	if findErr != nil {
		path = driverroot.NVML
	}
	if s.lib != nil {
		if findErr == nil && s.lib.path != path {
			return nil, fmt.Errorf("initialize NVML: %w: %w: this process has loaded %s, but the library is now %s (restart this process)",
				gpu.ErrNoDriver, gpu.ErrDriverChanged, s.lib.path, path)
		}
		return s.lib, nil
	}
	lib, err := load(path)
	if _, missing := errors.AsType[*openError](err); missing && findErr != nil {
		s.cfg.Log.Debug("cannot find the library of nvml", "in", findErr, "err", err)
		return nil, fmt.Errorf("%w: %s is not in driver root %s: install the driver, or set the driver root to where it is%s",
			gpu.ErrNoDriver, driverroot.NVML, s.cfg.DriverRoot.HostPath(), dockerFix("-v /:/driver-root:ro, or --gpus all"))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w: install the driver again", gpu.ErrNoDriver, err)
	}
	s.lib = lib
	return lib, nil
}
