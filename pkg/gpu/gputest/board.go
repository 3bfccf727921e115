package gputest

import "outrigger.dev/pkg/gpu"

// board describes how a model can be divided, in slices of memory.
type board struct {
	memory int
	slices []instanceKind
}

// instanceKind is a kind of GPU instance: the slices that it takes, and its memory and engines.
type instanceKind struct {
	// compute and memory are slices of the GPU.
	compute, memory int
	attribute       string
	mib             uint64
	engines         gpu.Engines
	// starts holds the possible first memory slices of an instance.
	starts []int
}

// boardOf returns how a GPU can be divided. The numbers are from nvidia-smi mig -lgip and from
// NVIDIA's MIG guide, and were not compared with hardware.
func boardOf(g *gpu.GPU) (board, bool) {
	switch g.Name {
	case "NVIDIA A30":
		return a30(), true
	case "NVIDIA A100-SXM4-40GB":
		return sevenSlices([6]row{{4864, 14, 1, 0, 0}, {9856, 14, 1, 1, 0}, {9856, 28, 2, 1, 0}, {19968, 42, 3, 2, 0}, {19968, 56, 4, 2, 0}, {40192, 98, 7, 5, 1}}), true
	case "NVIDIA A100-SXM4-80GB":
		return sevenSlices([6]row{{9856, 14, 1, 0, 0}, {19968, 14, 1, 1, 0}, {19968, 28, 2, 1, 0}, {40192, 42, 3, 2, 0}, {40192, 56, 4, 2, 0}, {80384, 98, 7, 5, 1}}), true
	case "NVIDIA H100 80GB HBM3":
		return sevenSlices([6]row{{9984, 16, 1, 1, 1}, {20096, 26, 1, 1, 1}, {20096, 32, 2, 2, 2}, {40448, 60, 3, 3, 3}, {40448, 64, 4, 4, 4}, {81152, 132, 8, 7, 7}}), true
	case "NVIDIA H200":
		return sevenSlices([6]row{{16384, 16, 1, 1, 1}, {33280, 26, 1, 1, 1}, {33280, 32, 2, 2, 2}, {71424, 60, 3, 3, 3}, {71424, 64, 4, 4, 4}, {143360, 132, 8, 7, 7}}), true
	case "NVIDIA B200":
		return sevenSlices([6]row{{21504, 18, 2, 1, 1}, {45312, 30, 2, 1, 1}, {45312, 36, 3, 2, 2}, {91136, 70, 6, 3, 3}, {91136, 74, 8, 4, 4}, {182784, 148, 16, 7, 7}}), true
	default:
		return board{}, false
	}
}

// row holds the resources of a GPU instance: memory, multiprocessors, and the engines for copying,
// decoding video, and decoding JPEG.
type row struct {
	mib             uint64
	sm, ce, dec, jp int
}

// sevenSlices returns a board of seven slices. The rows are for 1g, 1g with twice the memory, 2g,
// 3g, 4g and 7g.
func sevenSlices(rows [6]row) board {
	kind := func(compute, memory int, r row, starts ...int) instanceKind {
		engines := gpu.Engines{Multiprocessors: r.sm, Copy: r.ce, Decoder: r.dec, JPEG: r.jp}
		return instanceKind{compute: compute, memory: memory, mib: r.mib, engines: engines, starts: starts}
	}
	media := kind(1, 1, rows[0], 0, 1, 2, 3, 4, 5, 6)
	media.attribute = "+me"
	media.engines.Decoder, media.engines.JPEG, media.engines.OFA = 1, 1, 1
	whole := kind(7, 8, rows[5], 0)
	whole.engines.OFA = 1
	return board{memory: 8, slices: []instanceKind{
		kind(1, 1, rows[0], 0, 1, 2, 3, 4, 5, 6), media,
		kind(1, 2, rows[1], 0, 2, 4, 6),
		kind(2, 2, rows[2], 0, 2, 4),
		kind(3, 4, rows[3], 0, 4),
		kind(4, 4, rows[4], 0),
		whole,
	}}
}

// a30 returns the board of four slices.
func a30() board {
	kind := func(n int, mib uint64, starts ...int) instanceKind {
		return instanceKind{compute: n, memory: n, mib: mib, engines: gpu.Engines{Multiprocessors: 14 * n, Copy: n, Decoder: n}, starts: starts}
	}
	media := func(s instanceKind) instanceKind {
		s.attribute, s.engines.JPEG, s.engines.OFA = "+me", 1, 1
		return s
	}
	whole := media(kind(4, 24000, 0))
	whole.attribute = ""
	return board{memory: 4, slices: []instanceKind{
		kind(1, 5952, 0, 1, 2, 3), media(kind(1, 5952, 0, 1, 2, 3)),
		kind(2, 11968, 0, 2), media(kind(2, 11968, 0, 2)),
		whole,
	}}
}
