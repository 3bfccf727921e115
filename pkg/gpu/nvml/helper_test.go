package nvml_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu/nvml"
)

// fake is NVML with one GPU. It counts how often it is initialized and shut down.
type fake struct {
	gonvml.Interface
	gonvml.ExtendedInterface
	inits, shutdowns atomic.Int32
	// lacks are the symbols that the library does not have.
	lacks []string
	// name is what the GPU answers to be called.
	name gonvml.Return
	// wait waits for an event.
	wait func(millis uint32) gonvml.Return
	log  *slog.Logger
	// leaseWait is Config.LeaseWait of the session.
	leaseWait time.Duration
}

func (f *fake) Init() gonvml.Return {
	f.inits.Add(1)
	return gonvml.SUCCESS
}

func (f *fake) Shutdown() gonvml.Return {
	f.shutdowns.Add(1)
	return gonvml.SUCCESS
}

func (f *fake) Extensions() gonvml.ExtendedInterface { return f }

func (f *fake) LookupSymbol(name string) error {
	if slices.Contains(f.lacks, name) {
		return errors.New("no such symbol")
	}
	return nil
}

func (f *fake) DeviceGetHandleByIndex(int) (gonvml.Device, gonvml.Return) {
	return fakeGPU{answer: f.name}, gonvml.SUCCESS
}

func (f *fake) EventSetCreate() (gonvml.EventSet, gonvml.Return) {
	return fakeSet{wait: f.wait}, gonvml.SUCCESS
}

type fakeGPU struct {
	gonvml.Device
	answer gonvml.Return
}

func (g fakeGPU) GetName() (string, gonvml.Return) { return "NVIDIA L4", g.answer }

type fakeSet struct {
	gonvml.EventSet
	wait func(millis uint32) gonvml.Return
}

func (s fakeSet) Wait(millis uint32) (gonvml.EventData, gonvml.Return) {
	return gonvml.EventData{}, s.wait(millis)
}

// running reports whether NVML is initialized.
func (f *fake) running() bool { return f.inits.Load() != f.shutdowns.Load() }

// session returns a session on the fake, whose driver has one GPU.
func (f *fake) session(t *testing.T, lease *contract.Lease) (*nvml.Session, driverproc.Root) {
	t.Helper()
	proc := driverproc.Root(t.TempDir())
	plug(t, proc, "0000:07:00.0")
	s, err := nvml.New(nvml.Config{API: f, Proc: proc, Lease: lease, LeaseWait: f.leaseWait, Log: f.log})
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, proc
}

// plug adds a GPU to what the kernel driver shows.
func plug(t *testing.T, proc driverproc.Root, id string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Join(string(proc), "driver/nvidia/gpus", id), 0o755))
}

// name uses NVML to read the name of the GPU.
func name(ctx context.Context, s *nvml.Session) (string, error) {
	return nvml.Use(ctx, s, nameIn)
}

func nameIn(_ context.Context, span *nvml.Span) (string, error) {
	d, err := span.Library().Device(0)
	if err != nil {
		return "", err
	}
	return d.Name()
}

// hold begins a use that lasts until its context ends, and returns where the
// cause comes.
func hold(t *testing.T, s *nvml.Session) <-chan error {
	t.Helper()
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := nvml.Use(t.Context(), s, func(ctx context.Context, _ *nvml.Span) (struct{}, error) {
			close(begun)
			<-ctx.Done()
			return struct{}{}, context.Cause(ctx)
		})
		ended <- err
	}()
	<-begun
	return ended
}
