package app

import (
	"errors"
	"fmt"
	"io"

	"outrigger.dev/samples/vectoradd/internal/cuda"
	"outrigger.dev/samples/vectoradd/internal/kernel"
)

// add computes the sum of two vectors of n elements on d and checks it. It prints the lines of
// NVIDIA's vectorAdd sample, because people and scripts expect them.
func add(library *cuda.Library, d cuda.Device, n int, stdout io.Writer) (err error) {
	fmt.Fprintf(stdout, "[Vector addition of %d elements]\n", n)
	ctx, err := library.NewContext(d)
	if err == nil {
		if err = ctx.Load(kernel.PTX, kernel.Name); err != nil {
			err = errors.Join(err, ctx.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("prepare %s (%s): %w", d.UUID, d.Name, err)
	}
	a, b, sum := kernel.Vector(n, 1), kernel.Vector(n, 2), kernel.Unset(n)
	err = errors.Join(compute(ctx, a, b, sum, stdout), ctx.Close())
	if err != nil {
		return fmt.Errorf("add on %s (%s): %w", d.UUID, d.Name, err)
	}
	if err := kernel.Verify(a, b, sum); err != nil {
		return fmt.Errorf("%s (%s): %w", d.UUID, d.Name, err)
	}
	fmt.Fprintln(stdout, "Test PASSED")
	fmt.Fprintln(stdout, "Done")
	return nil
}

// compute adds a and b on the GPU and stores the result in sum.
func compute(ctx *cuda.Context, a, b, sum []float32, stdout io.Writer) error {
	fmt.Fprintln(stdout, "Copy input data from the host memory to the CUDA device")
	onDevice := make([]cuda.Buffer, 3)
	for i, vector := range [][]float32{a, b, sum} {
		buffer, err := ctx.Alloc(len(vector))
		if err != nil {
			return err
		}
		if err := ctx.Upload(buffer, vector); err != nil {
			return err
		}
		onDevice[i] = buffer
	}
	blocks := kernel.Blocks(len(sum))
	fmt.Fprintf(stdout, "CUDA kernel launch with %d blocks of %d threads\n", blocks, kernel.ThreadsPerBlock)
	if err := ctx.Launch(blocks, kernel.ThreadsPerBlock, onDevice[0], onDevice[1], onDevice[2]); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "Copy output data from the CUDA device to the host memory")
	return ctx.Download(sum, onDevice[2])
}
