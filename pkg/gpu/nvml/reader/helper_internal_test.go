package reader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu/nvml"
)

// fakeNVML is NVML with the GPUs that a test has made.
type fakeNVML struct {
	gonvml.Interface
	gonvml.ExtendedInterface
	gpus []gonvml.Device
	// lacks are the symbols that the library does not have.
	lacks []string
}

func (*fakeNVML) Init() gonvml.Return { return gonvml.SUCCESS }

func (*fakeNVML) Shutdown() gonvml.Return { return gonvml.SUCCESS }

func (f *fakeNVML) Extensions() gonvml.ExtendedInterface { return f }

func (f *fakeNVML) LookupSymbol(name string) error {
	if slices.Contains(f.lacks, name) {
		return errors.New("no such symbol")
	}
	return nil
}

func (f *fakeNVML) DeviceGetCount() (int, gonvml.Return) { return len(f.gpus), gonvml.SUCCESS }

func (f *fakeNVML) DeviceGetHandleByIndex(i int) (gonvml.Device, gonvml.Return) {
	return f.gpus[i], gonvml.SUCCESS
}

// viewOf returns a view of a fake, whose span lasts as long as the test.
func viewOf(t *testing.T, api gonvml.Interface) *view {
	t.Helper()
	proc := driverproc.Root(t.TempDir())
	session, err := nvml.New(nvml.Config{API: api, Proc: proc})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	v, err := nvml.Use(t.Context(), session, func(_ context.Context, span *nvml.Span) (*view, error) {
		return &view{span: span, proc: proc, log: slog.New(slog.DiscardHandler)}, nil
	})
	assert.NilError(t, err)
	return v
}

// handleOf returns the GPU with an index.
func (v *view) handleOf(t *testing.T, index int) nvml.Device {
	t.Helper()
	h, err := v.handle(index)
	assert.NilError(t, err)
	return h
}

// viewOfGPU returns a view of one GPU, and its handle.
func viewOfGPU(t *testing.T, g gonvml.Device, lacks ...string) (*view, nvml.Device) {
	t.Helper()
	v := viewOf(t, &fakeNVML{gpus: []gonvml.Device{g}, lacks: lacks})
	return v, v.handleOf(t, 0)
}

// soon are times by which a probe is due at once.
var soon = times{rest: time.Hour, probe: time.Nanosecond}
