package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func board(t testing.TB, name string) mig.Board {
	t.Helper()
	p, ok := boards.Named(name)
	if !ok {
		t.Fatalf("there is no product %s", name)
	}
	return p.Board
}

// devices reads "2*1g.10gb 3g.40gb".
func devices(t testing.TB, text string) map[gpu.Profile]int {
	t.Helper()
	want := map[gpu.Profile]int{}
	for word := range strings.FieldsSeq(text) {
		n, name := 1, word
		if count, of, ok := strings.Cut(word, "*"); ok {
			n, name = number(count), of
		}
		p, err := gpu.ParseProfile(name)
		assert.NilError(t, err)
		want[p] += n
	}
	return want
}

func number(text string) int {
	n := 0
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}

// layout reads "3g.40gb@4 2g.20gb@0[1c@0,1c@1]": GPU instances and their memory slice, and
// their compute instances where they are not one whole. "[]" stands for none.
func layout(t testing.TB, b mig.Board, text string) mig.Layout {
	t.Helper()
	l := mig.Layout{}
	for n, word := range strings.Fields(text) {
		head, inside, parts := strings.Cut(strings.TrimSuffix(word, "]"), "[")
		name, start, _ := strings.Cut(head, "@")
		named, err := gpu.ParseProfile(name)
		p, ok := b.Profile(named)
		if err != nil || !ok {
			t.Fatalf("layout %q: %v", word, err)
		}
		i := mig.Instance{ID: uint32(10 + n), Profile: p.Name, Placement: gpu.Placement{Start: number(start), Size: p.Placements[0].Size}}
		if !parts {
			inside = string(rune('0'+p.Name.GPUSlices)) + "c@0"
		}
		for m, c := range strings.FieldsFunc(inside, func(r rune) bool { return r == ',' }) {
			size, at, _ := strings.Cut(c, "c@")
			i.Compute = append(i.Compute, mig.Compute{
				ID: uint32(m), Slices: number(size), Placement: gpu.Placement{Start: number(at), Size: number(size)},
			})
		}
		l = append(l, i)
	}
	l.Sort()
	return l
}

// text is the inverse of layout.
func text(l mig.Layout) string {
	var words []string
	for _, i := range l {
		var inside []string
		for _, c := range i.Compute {
			inside = append(inside, string(rune('0'+c.Slices))+"c@"+string(rune('0'+c.Placement.Start)))
		}
		word := i.Profile.String() + "@" + string(rune('0'+i.Placement.Start))
		if len(inside) != 1 || i.Compute[0].Slices != i.Profile.GPUSlices {
			word += "[" + strings.Join(inside, ",") + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// key names devices, as the key of a map.
func key(devices map[gpu.Profile]int) string {
	var words []string
	for p, n := range devices {
		for range n {
			words = append(words, p.String())
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// equal reports whether both have the same devices, whatever is not there.
func equal(a, b map[gpu.Profile]int) bool {
	none := func(_ gpu.Profile, n int) bool { return n == 0 }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, none)
	maps.DeleteFunc(b, none)
	return maps.Equal(a, b)
}
