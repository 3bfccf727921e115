// Package table prints tables and values for people and programs: tables that fit the width of a terminal, with colour
// only on a terminal, JSON and YAML, a view that is refreshed, and progress.
package table

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"outrigger.dev/pkg/text"
)

// gap separates two columns.
const gap = "  "

// Column is a column of a table.
type Column struct {
	// Name is the heading.
	Name string
	// Min is the smallest width of the column after a cut, in characters. A column with Min 0 is not cut. Columns are cut
	// before one is left out.
	Min int
	// Drop says when a terminal that is too narrow loses the column: the column with the highest value first. A column
	// with 0 stays.
	Drop int
}

// Cell is a text with a colour.
type Cell struct {
	Text string
	Tone Tone
}

// Tone is the meaning of a colour.
type Tone string

// The tones, as the parameters of the terminal's escape sequence.
const (
	Plain Tone = ""
	Good  Tone = "32"
	Warn  Tone = "33"
	Bad   Tone = "31"
	Title Tone = "1"
)

// Paint returns a text in the colour of a tone, if the output has colours.
func (o Out) Paint(tone Tone, s string) string {
	if !o.Colour || tone == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(tone) + "m" + s + "\x1b[0m"
}

// Table is a table of text.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Add adds a row. A value is a Cell, or anything else that fmt prints. Add makes each cell one printable line, and prints
// "-" for an empty cell, except in the last column.
func (t *Table) Add(values ...any) {
	row := make([]Cell, len(t.Columns))
	for i := range row {
		switch v := values[i].(type) {
		case Cell:
			row[i] = v
		default:
			row[i].Text = fmt.Sprint(v)
		}
		row[i].Text = text.Printable(strings.Join(strings.Fields(row[i].Text), " "))
		if row[i].Text == "" && i < len(row)-1 {
			row[i] = Cell{Text: "-"}
		}
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write writes the heading and the rows.
func (t *Table) Write(o Out) error {
	widths := t.fit(o.Width)
	var b strings.Builder
	heading := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		heading[i] = Cell{Text: c.Name, Tone: Title}
	}
	for _, row := range slices.Concat([][]Cell{heading}, t.rows) {
		o.line(&b, row, widths)
	}
	if _, err := fmt.Fprint(o, b.String()); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

// line writes one row. A width of 0 leaves the column out.
func (o Out) line(b *strings.Builder, row []Cell, widths []int) {
	blanks := 0
	for i, cell := range row {
		if widths[i] == 0 {
			continue
		}
		shown := cut(cell.Text, widths[i])
		if shown != "" {
			b.WriteString(strings.Repeat(" ", blanks) + o.Paint(cell.Tone, shown))
			blanks = 0
		}
		blanks += widths[i] - utf8.RuneCountInString(shown) + len(gap)
	}
	b.WriteByte('\n')
}

// fit returns the widths of the columns in a line of the given width. 0 means no limit.
func (t *Table) fit(width int) []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Name)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	if width == 0 {
		return widths
	}
	natural := slices.Clone(widths)
	for total(widths) > width {
		if t.shrink(widths, total(widths)-width) {
			continue
		}
		last := t.leastNeeded(widths)
		if last < 0 {
			break
		}
		// The columns that were cut can use the room of this column.
		natural[last] = 0
		copy(widths, natural)
	}
	return widths
}

func total(widths []int) (sum int) {
	for _, w := range widths {
		if w > 0 {
			sum += w + len(gap)
		}
	}
	return sum - len(gap)
}

// shrink cuts the widest column that can be cut, by at most the excess, and reports whether there is one.
func (t *Table) shrink(widths []int, excess int) bool {
	widest := -1
	for i, c := range t.Columns {
		if c.Min > 0 && widths[i] > c.Min && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	if widest < 0 {
		return false
	}
	widths[widest] = max(t.Columns[widest].Min, widths[widest]-excess)
	return true
}

// leastNeeded returns the index of the column with the highest Drop that is still shown, or -1.
func (t *Table) leastNeeded(widths []int) int {
	found := -1
	for i, c := range t.Columns {
		if c.Drop > 0 && widths[i] > 0 && (found < 0 || c.Drop > t.Columns[found].Drop) {
			found = i
		}
	}
	return found
}

// cut returns at most width characters of s. A text that is cut ends in "…".
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}
