package plan

import (
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Steps returns the steps from one layout of a board to another. At no step does the GPU have
// more than the board admits. Everything that there is room for is created before something
// is destroyed, and compute instances are destroyed before their GPU instance. What both
// layouts have is not touched.
func Steps(b mig.Board, now, target mig.Layout) []mig.Step {
	t := newTransition(newSpace(b), now, target)
	foreign := func(i mig.Instance) bool { return t.space.find(i.Profile) < 0 }
	for at := slices.IndexFunc(t.doomed, foreign); at >= 0; at = slices.IndexFunc(t.doomed, foreign) {
		t.destroy(at) // first, because how much they take is not known
	}
	for {
		t.create()
		switch {
		case t.destroyCompute():
		case len(t.doomed) > 0:
			t.destroy(t.obstacle())
		default:
			return t.steps
		}
	}
}

// transition is the way from one layout to another.
type transition struct {
	space *space
	room  *room
	// doomed and wanted are the GPU instances to be destroyed and to be created, and
	// divided those that stay and get other compute instances.
	doomed, wanted []mig.Instance
	divided        []*division
	steps          []mig.Step
}

// division is a GPU instance that stays: Compute is what it has at the moment.
type division struct {
	mig.Instance
	want, wanted []mig.Compute
}

func newTransition(s *space, now, target mig.Layout) *transition {
	t := &transition{space: s, room: newRoom(s)}
	for _, i := range now {
		t.updateRoom(i, t.room.add)
		at := slices.IndexFunc(target, i.Same)
		if at < 0 {
			t.doomed = append(t.doomed, i)
			continue
		}
		d := &division{Instance: i, want: target[at].Compute}
		d.Compute = slices.Clone(i.Compute)
		d.wanted = slices.DeleteFunc(slices.Clone(d.want), func(c mig.Compute) bool { return slices.ContainsFunc(i.Compute, c.Equal) })
		t.divided = append(t.divided, d)
	}
	for _, i := range target {
		if !slices.ContainsFunc(now, i.Same) {
			t.wanted = append(t.wanted, i)
		}
	}
	return t
}

// updateRoom does something with the room of an instance whose profile the board has.
func (t *transition) updateRoom(i mig.Instance, do func(int, gpu.Placement)) {
	if kind := t.space.find(i.Profile); kind >= 0 {
		do(kind, i.Placement)
	}
}

// create creates all that there is room for. When nothing is left to be destroyed, it creates
// the rest whether or not it fits: the caller wants this layout, and the driver has the last
// word.
func (t *transition) create() {
	t.wanted = slices.DeleteFunc(t.wanted, func(i mig.Instance) bool {
		kind := t.space.find(i.Profile)
		if len(t.doomed) > 0 && (kind < 0 || !t.room.fits(kind, i.Placement)) {
			return false
		}
		t.updateRoom(i, t.room.add)
		t.add(mig.CreateInstance, i, mig.Compute{})
		for _, c := range i.Compute {
			t.add(mig.CreateCompute, i, c)
		}
		return true
	})
	for _, d := range t.divided {
		d.wanted = slices.DeleteFunc(d.wanted, func(c mig.Compute) bool {
			if d.surplus() >= 0 && !d.fits(t.space, c) {
				return false
			}
			d.Compute = append(d.Compute, c)
			t.add(mig.CreateCompute, d.Instance, c)
			return true
		})
	}
}

// destroyCompute destroys a compute instance of a GPU instance that stays. It reports whether
// there was one to be destroyed.
func (t *transition) destroyCompute() bool {
	for _, d := range t.divided {
		if at := d.surplus(); at >= 0 {
			t.add(mig.DestroyCompute, d.Instance, d.Compute[at])
			d.Compute = slices.Delete(d.Compute, at, at+1)
			return true
		}
	}
	return false
}

// obstacle returns which GPU instance to destroy: one at the place of the first wanted
// instance, or the first.
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
	t.updateRoom(i, t.room.remove)
}

func (t *transition) add(op mig.Op, i mig.Instance, c mig.Compute) {
	c.ID = 0
	t.steps = append(t.steps, mig.Step{Op: op, Profile: i.Profile, Placement: i.Placement, Compute: c})
}

// surplus returns which compute instance is to be destroyed, or -1.
func (d *division) surplus() int {
	return slices.IndexFunc(d.Compute, func(c mig.Compute) bool { return !slices.ContainsFunc(d.want, c.Equal) })
}

// fits reports whether there is room for another compute instance.
func (d *division) fits(s *space, c mig.Compute) bool {
	profile, _ := s.board.Profile(d.Profile)
	kind, ok := profile.Of(c.Slices)
	same := 0
	for _, o := range d.Compute {
		ok = ok && mask(o.Placement)&mask(c.Placement) == 0
		if o.Slices == c.Slices {
			same++
		}
	}
	return ok && same < kind.Max
}
