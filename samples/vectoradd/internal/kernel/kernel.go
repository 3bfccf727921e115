// Package kernel contains the program that runs on the GPU and checks its result. It
// does not use a GPU itself.
package kernel

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
)

// Name is the entry point in PTX.
const Name = "vectorAdd"

// MinCUDA is the oldest supported CUDA version, 9.2. Its driver compiles PTX and has all required
// functions.
const MinCUDA = 9020

// ThreadsPerBlock is the size of a block in a launch.
const ThreadsPerBlock = 256

// MaxElements keeps every index within 32 bits and the three vectors within
// 12 GB of device memory.
const MaxElements = 1 << 30

// tolerance is the largest accepted error of a sum.
const tolerance = 1e-5

// PTX is the kernel in the intermediate language that the driver compiles.
//
//go:embed vectoradd.ptx
var PTX string

// Blocks returns the number of blocks that cover n elements.
func Blocks(n int) int {
	return (n + ThreadsPerBlock - 1) / ThreadsPerBlock
}

// Vector returns n values in [0, 1) that depend only on the seed.
func Vector(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	v := make([]float32, n)
	for i := range v {
		v[i] = r.Float32()
	}
	return v
}

// Unset returns n values that do not equal any sum, so that Verify finds elements that the kernel
// did not write.
func Unset(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}

// Verify compares every element of sum with a + b and returns the first difference as
// an error.
func Verify(a, b, sum []float32) error {
	if len(a) != len(sum) || len(b) != len(sum) {
		return fmt.Errorf("verify the sum: %d + %d elements gave %d", len(a), len(b), len(sum))
	}
	for i := range sum {
		want := float64(a[i]) + float64(b[i])
		// This condition also rejects NaN.
		if off := math.Abs(float64(sum[i]) - want); !(off <= tolerance) {
			return fmt.Errorf("verify the sum: element %d is %g, want %g: the GPU computes wrong results or its memory is damaged", i, sum[i], want)
		}
	}
	return nil
}
