package app

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"outrigger.dev/samples/vectoradd/internal/cuda"
	"outrigger.dev/samples/vectoradd/internal/kernel"
)

const (
	// copied is the number of float32 values in a copy: 32 MiB, so that the start of a copy takes a small part of its time.
	copied = 8 << 20
	// repeats is how often a copy runs. The fastest one counts.
	repeats = 3
)

// copies copies between the host and each device, and between each two devices, checks the copied values, and prints
// the rates. A slow copy is no error, because the rate depends on the machine.
func copies(library *cuda.Library, devices []cuda.Device, stdout io.Writer) error {
	fmt.Fprintf(stdout, "[Copies of %d MiB, in GB/s]\n", copied*4>>20)
	var errs []error
	for _, d := range devices {
		if err := copyHost(library, d, stdout); err != nil {
			errs = append(errs, fmt.Errorf("copy between the host and %s (%s): %w", d.UUID, d.Name, err))
		}
	}
	for _, from := range devices {
		for _, to := range devices {
			if from.Index == to.Index {
				continue
			}
			if err := copyPeer(library, from, to, stdout); err != nil {
				errs = append(errs, fmt.Errorf("copy from %s to %s (%s): %w", from.UUID, to.UUID, to.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// copyHost copies from the host to a device and back.
func copyHost(library *cuda.Library, d cuda.Device, stdout io.Writer) (err error) {
	ctx, source, onDevice, err := filled(library, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctx.Close()) }()
	back, err := ctx.AllocHost(copied)
	if err != nil {
		return err
	}
	up, err := rate(func() error { return ctx.Upload(onDevice, source) })
	if err != nil {
		return err
	}
	down, err := rate(func() error { return ctx.Download(back, onDevice) })
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "GPU %d: host to device %.1f, device to host %.1f\n", d.Index, up, down)
	return same(source, back)
}

// copyPeer copies from one device to another one.
func copyPeer(library *cuda.Library, from, to cuda.Device, stdout io.Writer) (err error) {
	first, source, onFirst, err := filled(library, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	second, err := library.NewContext(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(second.Close(), err) }()
	way := "through the host"
	access, err := library.CanAccess(to, from)
	if err == nil && access {
		way, err = "peer access", second.Access(first)
	}
	if err != nil {
		return err
	}
	onSecond, err := second.Alloc(copied)
	if err != nil {
		return err
	}
	speed, err := rate(func() error { return second.CopyFrom(first, onSecond, onFirst) })
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "GPU %d to GPU %d: %.1f (%s)\n", from.Index, to.Index, speed, way)
	back := make([]float32, copied)
	if err := second.Download(back, onSecond); err != nil {
		return err
	}
	return same(source, back)
}

// filled returns a context on a device, and a buffer on the device with the same values as source.
func filled(library *cuda.Library, d cuda.Device) (ctx *cuda.Context, source []float32, b cuda.Buffer, err error) {
	ctx, err = library.NewContext(d)
	if err != nil {
		return nil, nil, b, err
	}
	if source, err = ctx.AllocHost(copied); err == nil {
		copy(source, kernel.Vector(copied, uint64(d.Index)))
		if b, err = ctx.Alloc(copied); err == nil {
			err = ctx.Upload(b, source)
		}
	}
	if err != nil {
		return nil, nil, b, errors.Join(err, ctx.Close())
	}
	return ctx, source, b, nil
}

// rate runs a copy several times, and returns the rate of the fastest one in GB/s.
func rate(do func() error) (float64, error) {
	var fastest time.Duration
	for i := range repeats {
		start := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < fastest {
			fastest = took
		}
	}
	return copied * 4 / 1e9 / max(fastest, time.Nanosecond).Seconds(), nil
}

// same returns an error if the copied values differ from the source.
func same(source, back []float32) error {
	if slices.Equal(source, back) {
		return nil
	}
	for i := range source {
		if source[i] != back[i] {
			return fmt.Errorf("element %d is %g, want %g: the copy is damaged; check the kernel log (dmesg | grep NVRM), the GPU's memory, and its connection", i, back[i], source[i])
		}
	}
	return nil
}
