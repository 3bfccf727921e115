package plan_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu/mig"
)

func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		now, target string
		want        []string
	}{
		"where there is room, the new one comes first": {"1g.10gb@0", "1g.10gb@3", []string{
			"create GPU instance 1g.10gb at 3:1",
			"create compute instance 1g.10gb at 0:1 of 1g.10gb at 3:1",
			"destroy compute instance 1g.10gb at 0:1 of 1g.10gb at 0:1",
			"destroy GPU instance 1g.10gb at 0:1",
		}},
		"a GPU has one instance with media extensions at a time": {"1g.10gb+me@0", "1g.10gb+me@3", []string{
			"destroy compute instance 1g.10gb+me at 0:1 of 1g.10gb+me at 0:1",
			"destroy GPU instance 1g.10gb+me at 0:1",
			"create GPU instance 1g.10gb+me at 3:1",
			"create compute instance 1g.10gb+me at 0:1 of 1g.10gb+me at 3:1",
		}},
		"the driver has a limit of compute instances": {"3g.40gb@0[1c@0,1c@1]", "3g.40gb@0[1c@1,1c@2]", []string{
			"destroy compute instance 1c.3g.40gb at 0:1 of 3g.40gb at 0:4",
			"create compute instance 1c.3g.40gb at 2:1 of 3g.40gb at 0:4",
		}},
		"what is in the way of the next one goes first": {"1g.10gb@1 1g.10gb@5", "3g.40gb@4 1g.10gb@1", []string{
			"destroy compute instance 1g.10gb at 0:1 of 1g.10gb at 5:1",
			"destroy GPU instance 1g.10gb at 5:1",
			"create GPU instance 3g.40gb at 4:4",
			"create compute instance 3g.40gb at 0:3 of 3g.40gb at 4:4",
		}},
		"nothing differs": {"3g.40gb@4 1g.10gb@1", "3g.40gb@4 1g.10gb@1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := board(t, "a100-80")
			b.Profiles[2].Compute[0].Max = 2
			var got []string
			for _, s := range plan.Steps(b, layout(t, b, c.now), layout(t, b, c.target)) {
				got = append(got, s.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("Steps() = %q, want %q", got, c.want)
			}
		})
	}
}

// An instance of a profile that the board does not have is destroyed before all else.
func TestStepsOfUnknownProfile(t *testing.T) {
	b := board(t, "a100-80")
	now := layout(t, b, "1g.10gb@5 3g.40gb@0")
	now[0].Profile.GB = 41
	target, err := plan.Target(b, now, devices(t, "2*1g.10gb"), nil)
	assert.NilError(t, err)
	steps := plan.Steps(b, now, target)
	if len(steps) != 4 || steps[1].String() != "destroy GPU instance 3g.41gb at 0:4" || steps[3].Op != mig.CreateCompute {
		t.Errorf("Steps() = %v", steps)
	}
}

// follow applies the steps from one layout to another, and checks each of them.
func follow(t *testing.T, b mig.Board, now, target mig.Layout) {
	t.Helper()
	steps := plan.Steps(b, now, target)
	has := mig.Layout{}
	for _, i := range now {
		i.Compute = slices.Clone(i.Compute)
		has = append(has, i)
	}
	fail := func(s mig.Step, why string) {
		t.Helper()
		t.Errorf("from %s to %s: step %q: %s; all steps: %q", text(now), text(target), s, why, steps)
	}
	for _, s := range steps {
		why := untouched(now, target, s)
		if why == "" && (s.Op == mig.DestroyCompute || s.Op == mig.DestroyInstance) {
			why = waiting(b, has, target, s)
		}
		if why == "" {
			has, why = apply(has, s)
		}
		if why == "" {
			why = legal(b, has)
		}
		if why == "" {
			why = legalCompute(b, has)
		}
		if why != "" {
			fail(s, why)
			return
		}
	}
	if has.Sort(); !has.Equal(target) {
		t.Errorf("from %s to %s: ends at %s", text(now), text(target), text(has))
	}
}

// apply does a step as the driver does.
func apply(has mig.Layout, s mig.Step) (mig.Layout, string) {
	at := slices.IndexFunc(has, func(i mig.Instance) bool { return i.Profile == s.Profile && i.Placement == s.Placement })
	if s.Op == mig.CreateInstance {
		if at >= 0 {
			return has, "it exists"
		}
		return append(has, mig.Instance{Profile: s.Profile, Placement: s.Placement}), ""
	}
	if at < 0 {
		return has, "there is no such GPU instance"
	}
	i := &has[at]
	part := slices.IndexFunc(i.Compute, s.Compute.Equal)
	switch {
	case s.Op == mig.DestroyInstance && len(i.Compute) > 0:
		return has, "it has compute instances"
	case s.Op == mig.DestroyInstance:
		return slices.Delete(has, at, at+1), ""
	case s.Op == mig.CreateCompute && part >= 0:
		return has, "it exists"
	case s.Op == mig.CreateCompute:
		i.Compute = append(i.Compute, s.Compute)
		return has, ""
	case part < 0:
		return has, "there is no such compute instance"
	default:
		i.Compute = slices.Delete(i.Compute, part, part+1)
		return has, ""
	}
}

// untouched checks that a step does not touch what both layouts have.
func untouched(now, target mig.Layout, s mig.Step) string {
	has := func(l mig.Layout) bool {
		at := slices.IndexFunc(l, func(i mig.Instance) bool { return i.Profile == s.Profile && i.Placement == s.Placement })
		if at < 0 {
			return false
		}
		whole := s.Op == mig.CreateInstance || s.Op == mig.DestroyInstance
		return whole || slices.ContainsFunc(l[at].Compute, s.Compute.Equal)
	}
	if has(now) && has(target) {
		return "both layouts have it"
	}
	return ""
}

// waiting checks that nothing could be created before something is destroyed. A GPU instance
// loses its compute instances and itself at once.
func waiting(b mig.Board, has, target mig.Layout, s mig.Step) string {
	whole := !slices.ContainsFunc(target, func(i mig.Instance) bool { return i.Profile == s.Profile && i.Placement == s.Placement })
	for _, i := range target {
		at := slices.IndexFunc(has, i.Same)
		if at < 0 {
			if legal(b, append(slices.Clone(has), i)) == "" {
				return "there is room for " + i.Profile.String()
			}
			continue
		}
		for _, c := range i.Compute {
			more := has[at]
			if slices.ContainsFunc(more.Compute, c.Equal) {
				continue
			}
			more.Compute = append(slices.Clone(more.Compute), c)
			if legalCompute(b, mig.Layout{more}) == "" && !whole {
				return "there is room for " + i.Device(c).String()
			}
		}
	}
	return ""
}
