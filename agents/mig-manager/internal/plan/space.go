// Package plan computes how to divide a GPU into the desired MIG devices: the layout that destroys
// least, and the steps to this layout. It does no I/O.
package plan

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// space has the properties of a board, prepared for a search.
type space struct {
	board mig.Board
	// kinds are the profiles, the largest first.
	kinds []kind
	// media has the number of media engines of the GPU.
	media media
}

// kind is a profile of a board.
type kind struct {
	mig.Profile
	// spots are the placements, the highest start first.
	spots []gpu.Placement
	media media
	// parts are the ways to divide an existing instance. fresh are the ways to divide a new one: the
	// first way for each set of compute instances.
	parts, fresh []part
}

// media counts media engines: decoders, encoders, JPEG engines and OFAs.
type media [4]int

// mediaNames returns the names of the engines, in the order of media.
func mediaNames() [4]string {
	return [4]string{"decoders", "encoders", "JPEG engines", "optical flow engines"}
}

// ExceedsEngines reports whether GPU instances of these profiles together have more media engines
// than the GPU. Without shared engines, they cannot exist together.
func ExceedsEngines(b mig.Board, profiles []gpu.Profile) bool {
	s := newSpace(b)
	var total media
	for _, p := range profiles {
		if i := s.find(p); i >= 0 {
			for e, n := range s.kinds[i].media {
				total[e] += n
			}
		}
	}
	for e, n := range total {
		if n > s.media[e] {
			return true
		}
	}
	return false
}

func mediaOf(e gpu.Engines) media { return media{e.Decoder, e.Encoder, e.JPEG, e.OFA} }

func newSpace(b mig.Board) *space {
	s := &space{board: b}
	for _, p := range b.Profiles {
		k := kind{Profile: p, media: mediaOf(p.Engines), parts: parts(p)}
		k.spots = slices.DeleteFunc(slices.Clone(p.Placements), func(p gpu.Placement) bool {
			return mask(p) == 0 || p.Start+p.Size > b.MemorySlices
		})
		k.fresh = distinct(k.parts)
		slices.SortFunc(k.spots, func(a, b gpu.Placement) int { return cmp.Compare(b.Start, a.Start) })
		s.kinds = append(s.kinds, k)
	}
	slices.SortStableFunc(s.kinds, func(a, b kind) int {
		return cmp.Or(
			cmp.Compare(b.Name.GPUSlices, a.Name.GPUSlices), cmp.Compare(b.size(), a.size()), cmp.Compare(a.Number, b.Number))
	})
	s.limitMedia()
	return s
}

// limitMedia sets the number of media engines of the GPU to the number of its largest profile. The
// limit does not apply if instances share engines: the driver has admitted more instances, or the
// board allows more instances of a profile than it has engines for.
func (s *space) limitMedia() {
	for e := range s.media {
		for _, k := range s.kinds {
			s.media[e] = max(s.media[e], k.media[e])
		}
		if s.board.SharedEngines || slices.ContainsFunc(s.kinds, func(k kind) bool { return k.Max*k.media[e] > s.media[e] }) {
			for i := range s.kinds {
				s.kinds[i].media[e] = 0
			}
		}
	}
}

// find returns the index of the kind for the profile of a GPU instance, or -1.
func (s *space) find(name gpu.Profile) int {
	name.ComputeSlices = name.GPUSlices
	return slices.IndexFunc(s.kinds, func(k kind) bool { return k.Name == name })
}

// size returns the size in memory slices.
func (k kind) size() int {
	if len(k.spots) == 0 {
		return 0
	}
	return k.spots[0].Size
}

// mask returns the slices of p as bits. An invalid placement has no bits.
func mask(p gpu.Placement) uint64 {
	if p.Start < 0 || p.Size < 1 || p.Start+p.Size > 64 {
		return 0
	}
	return (1<<p.Size - 1) << p.Start
}

// room tracks the free resources of a GPU with some GPU instances.
type room struct {
	space   *space
	used    uint64
	compute int
	media   media
	count   []int
}

func newRoom(s *space) *room { return &room{space: s, count: make([]int, len(s.kinds))} }

// fits reports whether an instance of kind i can be added at p.
func (r *room) fits(i int, p gpu.Placement) bool {
	k := &r.space.kinds[i]
	if r.used&mask(p) != 0 || r.compute+k.Name.GPUSlices > r.space.board.ComputeSlices || r.count[i] >= k.Max {
		return false
	}
	for e, n := range k.media {
		if n > 0 && r.media[e]+n > r.space.media[e] {
			return false
		}
	}
	return true
}

// add adds an instance of kind i at p, and remove removes it.
func (r *room) add(i int, p gpu.Placement)    { r.used |= mask(p); r.account(i, 1) }
func (r *room) remove(i int, p gpu.Placement) { r.used &^= mask(p); r.account(i, -1) }

func (r *room) account(i, n int) {
	k := &r.space.kinds[i]
	r.compute += n * k.Name.GPUSlices
	r.count[i] += n
	for e := range k.media {
		r.media[e] += n * k.media[e]
	}
}

// capacity returns, for each kind, how many more instances fit if all of them are of this kind.
func (r *room) capacity() []int {
	free := make([]int, len(r.space.kinds))
	for i, k := range r.space.kinds {
		var taken []gpu.Placement
		for _, p := range k.spots {
			if r.fits(i, p) {
				r.add(i, p)
				taken = append(taken, p)
			}
		}
		free[i] = len(taken)
		for _, p := range taken {
			r.remove(i, p)
		}
	}
	return free
}

// seat is a GPU instance of a candidate: the index of its kind, and its placement.
type seat struct {
	kind  int
	place gpu.Placement
}

// walk calls visit for each layout whose number of instances of each kind i is from low[i] to high[i]. The
// arguments are the instances and the remaining room, which visit must not keep. Large instances are
// placed first, each at its highest start first. On an empty GPU, this order finds every feasible
// multiset of the known boards immediately.
func (s *space) walk(low, high []int, visit func([]seat, *room)) {
	r := newRoom(s)
	var seats []seat
	var step func(i, spot int)
	step = func(i, spot int) {
		if i == len(s.kinds) {
			visit(seats, r)
			return
		}
		k := &s.kinds[i]
		left := len(k.spots) - spot
		if r.count[i]+left < low[i] {
			return
		}
		if left == 0 || r.count[i] == high[i] {
			step(i+1, 0)
			return
		}
		if p := k.spots[spot]; r.fits(i, p) {
			r.add(i, p)
			seats = append(seats, seat{i, p})
			step(i, spot+1)
			seats = seats[:len(seats)-1]
			r.remove(i, p)
		}
		step(i, spot+1)
	}
	step(0, 0)
}
