package plan

import (
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Steps returns the steps from one layout of a board to another. No step exceeds the limits of the
// board. Instances are created as early as possible, and destroyed as late as possible. Compute
// instances are destroyed before their GPU instance. Instances in both layouts are not changed.
func Steps(b mig.Board, now, target mig.Layout) []mig.Step {
	t := newTransition(newSpace(b), now, target)
	foreign := func(i mig.Instance) bool { return t.space.find(i.Profile) < 0 }
	for at := slices.IndexFunc(t.doomed, foreign); at >= 0; at = slices.IndexFunc(t.doomed, foreign) {
		t.destroy(at) // first, because the size of an instance with an unknown profile is not known
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

// transition is the state of a change from one layout to another.
type transition struct {
	space *space
	room  *room
	// doomed are the GPU instances to destroy, and wanted the GPU instances to create. divided are
	// the kept GPU instances, whose compute instances may change.
	doomed, wanted []mig.Instance
	divided        []*division
	steps          []mig.Step
}

// division is a kept GPU instance. Its Compute has the current compute instances.
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

// updateRoom calls do with the kind and the placement of an instance, if the board has its profile.
func (t *transition) updateRoom(i mig.Instance, do func(int, gpu.Placement)) {
	if kind := t.space.find(i.Profile); kind >= 0 {
		do(kind, i.Placement)
	}
}

// create creates all instances that fit. After all other instances are destroyed, it creates the
// remaining ones even if they do not fit, because the caller wants this layout and the driver
// decides.
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

// destroyCompute destroys a compute instance of a kept GPU instance. It returns false if there is
// none to destroy.
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

// obstacle returns the index of the next GPU instance to destroy: an instance that overlaps the first
// wanted instance, or else the first instance to destroy.
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

// surplus returns the index of a compute instance to destroy, or -1.
func (d *division) surplus() int {
	return slices.IndexFunc(d.Compute, func(c mig.Compute) bool { return !slices.ContainsFunc(d.want, c.Equal) })
}

// fits reports whether another compute instance fits.
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
