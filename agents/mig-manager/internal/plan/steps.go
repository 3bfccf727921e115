package plan

import (
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Steps returns the steps from one layout of a board to another. At no step does the GPU have
// more than the board admits. What there is room for is created before something else is
// destroyed, and compute instances are destroyed before their GPU instance. What both
// layouts have is not touched.
func Steps(b mig.Board, now, target mig.Layout) []mig.Step {
	t := &transition{space: newSpace(b)}
	t.room = newRoom(t.space)
	for _, i := range now {
		t.book(i, t.room.add)
		at := slices.IndexFunc(target, i.Same)
		switch {
		case at < 0:
			t.doomed = append(t.doomed, i)
		case !i.Equal(target[at]):
			t.divide(i, target[at].Compute)
		}
	}
	for _, i := range target {
		if !slices.ContainsFunc(now, i.Same) {
			t.wanted = append(t.wanted, i)
		}
	}
	foreign := func(i mig.Instance) bool { return t.space.find(i.Profile) < 0 }
	for at := slices.IndexFunc(t.doomed, foreign); at >= 0; at = slices.IndexFunc(t.doomed, foreign) {
		t.destroy(at) // first, because how much they take is not known
	}
	for len(t.wanted)+len(t.doomed) > 0 {
		if !t.create() {
			t.destroy(t.obstacle())
		}
	}
	return t.steps
}

// transition is the way from one layout to another.
type transition struct {
	space          *space
	room           *room
	doomed, wanted []mig.Instance
	steps          []mig.Step
}

// book does something with the room of an instance whose profile the board has.
func (t *transition) book(i mig.Instance, do func(int, gpu.Placement)) {
	if kind := t.space.find(i.Profile); kind >= 0 {
		do(kind, i.Placement)
	}
}

// fits reports whether there is room for i.
func (t *transition) fits(i mig.Instance) bool {
	kind := t.space.find(i.Profile)
	return kind >= 0 && t.room.fits(kind, i.Placement)
}

// create creates all wanted instances that there is room for. It reports whether there was
// one. When nothing is left to be destroyed, the rest is created whether or not it fits: the
// caller wants this layout, and the driver has the last word.
func (t *transition) create() bool {
	before := len(t.wanted)
	t.wanted = slices.DeleteFunc(t.wanted, func(i mig.Instance) bool {
		if len(t.doomed) > 0 && !t.fits(i) {
			return false
		}
		t.book(i, t.room.add)
		t.add(mig.CreateInstance, i, mig.Compute{})
		for _, c := range i.Compute {
			t.add(mig.CreateCompute, i, c)
		}
		return true
	})
	return len(t.wanted) < before
}

// obstacle returns which instance to destroy: one at the place of the first wanted instance,
// or the first.
func (t *transition) obstacle() int {
	if len(t.wanted) == 0 {
		return 0
	}
	place := mask(t.wanted[0].Placement)
	return max(0, slices.IndexFunc(t.doomed, func(i mig.Instance) bool { return mask(i.Placement)&place != 0 }))
}

func (t *transition) destroy(at int) {
	i := t.doomed[at]
	t.doomed = slices.Delete(t.doomed, at, at+1)
	for _, c := range i.Compute {
		t.add(mig.DestroyCompute, i, c)
	}
	t.add(mig.DestroyInstance, i, mig.Compute{})
	t.book(i, t.room.remove)
}

// divide gives a GPU instance other compute instances.
func (t *transition) divide(i mig.Instance, want []mig.Compute) {
	has := slices.Clone(i.Compute)
	wanted := slices.DeleteFunc(slices.Clone(want), func(c mig.Compute) bool { return slices.ContainsFunc(has, c.Equal) })
	doomed := func(c mig.Compute) bool { return !slices.ContainsFunc(want, c.Equal) }
	for {
		wanted = slices.DeleteFunc(wanted, func(c mig.Compute) bool {
			if slices.ContainsFunc(has, doomed) && !t.fitsIn(i, has, c) {
				return false
			}
			has = append(has, c)
			t.add(mig.CreateCompute, i, c)
			return true
		})
		at := slices.IndexFunc(has, doomed)
		if at < 0 {
			return
		}
		t.add(mig.DestroyCompute, i, has[at])
		has = slices.Delete(has, at, at+1)
	}
}

// fitsIn reports whether a GPU instance with some compute instances has room for another.
func (t *transition) fitsIn(i mig.Instance, has []mig.Compute, c mig.Compute) bool {
	profile, _ := t.space.board.Profile(i.Profile)
	kind, ok := profile.Of(c.Slices)
	same := 0
	for _, o := range has {
		ok = ok && mask(o.Placement)&mask(c.Placement) == 0
		if o.Slices == c.Slices {
			same++
		}
	}
	return ok && same < kind.Max
}

func (t *transition) add(op mig.Op, i mig.Instance, c mig.Compute) {
	c.ID = 0
	t.steps = append(t.steps, mig.Step{Op: op, Profile: i.Profile, Placement: i.Placement, Compute: c})
}
