package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu/mig"
)

// drawWidth is the width of a drawing in characters. It fits on a terminal with 80 columns.
const drawWidth = 72

// Draw draws a layout over the memory slices of its board: the GPU instances with their profiles, and
// below them their compute instances. A drawing is at most 80 columns wide.
func Draw(w io.Writer, b mig.Board, l mig.Layout) error {
	if b.MemorySlices < 1 || b.MemorySlices > drawWidth/2 {
		_, err := fmt.Fprintf(w, "the GPU cannot be drawn: it has %d memory slices\n", b.MemorySlices)
		return err
	}
	slice := drawWidth / b.MemorySlices
	d := newDrawing(slice*b.MemorySlices, l)
	l = slices.Clone(l)
	slices.SortFunc(l, func(a, b mig.Instance) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	end := 0
	free := func(until int) {
		if end < until {
			d.box(end*slice, until*slice, 0)
			d.text(end*slice, until*slice, 1, "free")
		}
	}
	for _, i := range l {
		p := i.Placement
		if p.Start < end || p.Size < 1 || p.Start+p.Size > b.MemorySlices {
			_, err := fmt.Fprintf(w, "the layout cannot be drawn: %s at %d:%d overlaps another instance or the end\n", i.Profile, p.Start, p.Size)
			return err
		}
		free(p.Start)
		end = p.Start + p.Size
		d.instance(i, p.Start*slice, end*slice)
	}
	free(b.MemorySlices)
	var head strings.Builder
	for n := range b.MemorySlices {
		fmt.Fprintf(&head, "%-*d", slice, n)
	}
	_, err := fmt.Fprintf(w, "%s\n%s", strings.TrimRight(head.String(), " "), d)
	return err
}

// instance draws a GPU instance between two columns.
func (d *drawing) instance(i mig.Instance, left, right int) {
	name := i.Profile
	name.ComputeSlices, name.Attribute = name.GPUSlices, ""
	d.box(left, right, 0)
	d.text(left, right, 1, name.String())
	d.text(left, right, 2, i.Profile.Attribute)
	d.box(left, right, d.divide)
	column := func(slice int) int { return left + (right-left)*slice/max(1, i.Profile.GPUSlices) }
	for _, c := range i.Compute {
		from, to := column(c.Placement.Start), column(c.Placement.Start+c.Placement.Size)
		if c.Placement.Start < 0 || to > right {
			continue
		}
		d.box(from, to, d.divide)
		d.text(from, to, d.divide+1, fmt.Sprintf("%dc", c.Slices))
	}
}

// drawing is a grid of characters. Lines are stored as the directions of the strokes in a
// character, so that crossing lines are joined.
type drawing struct {
	// divide is the row between the profiles and the compute instances.
	divide int
	lines  [][]direction
	runes  [][]rune
}

type direction byte

const (
	up direction = 1 << iota
	down
	left
	right
)

// newDrawing returns an empty drawing. It has a row for attributes if an instance of the layout has one.
func newDrawing(width int, l mig.Layout) *drawing {
	d := &drawing{divide: 2}
	if slices.ContainsFunc(l, func(i mig.Instance) bool { return i.Profile.Attribute != "" }) {
		d.divide++
	}
	for range d.divide + 3 {
		d.lines = append(d.lines, make([]direction, width+1))
		d.runes = append(d.runes, []rune(strings.Repeat(" ", width+1)))
	}
	return d
}

// box draws a rectangle between two columns, from row top to the last row.
func (d *drawing) box(from, to, top int) {
	bottom := len(d.lines) - 1
	for x := from; x < to; x++ {
		for _, y := range []int{top, bottom} {
			d.lines[y][x] |= right
			d.lines[y][x+1] |= left
		}
	}
	for y := top; y < bottom; y++ {
		for _, x := range []int{from, to} {
			d.lines[y][x] |= down
			d.lines[y+1][x] |= up
		}
	}
}

// text writes a text, centered between two columns.
func (d *drawing) text(from, to, row int, text string) {
	at := from + 1 + (to-from-1-len(text))/2
	for n, c := range text {
		if x := at + n; x > from && x < to {
			d.runes[row][x] = c
		}
	}
}

func (d *drawing) String() string {
	joined := map[direction]rune{
		up: '│', down: '│', up | down: '│', left: '─', right: '─', left | right: '─',
		down | right: '┌', down | left: '┐', up | right: '└', up | left: '┘',
		up | down | right: '├', up | down | left: '┤', left | right | down: '┬', left | right | up: '┴',
		up | down | left | right: '┼',
	}
	var b strings.Builder
	for y, row := range d.runes {
		line := slices.Clone(row)
		for x, to := range d.lines[y] {
			if to != 0 {
				line[x] = joined[to]
			}
		}
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}
