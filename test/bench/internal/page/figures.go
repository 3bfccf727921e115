package page

import (
	_ "embed"
	"fmt"
	"strings"
)

// Figure is a row of the page.
type Figure struct {
	// Area is the heading above the row.
	Area, Name string
	// Operation is the operation of the result. Without one, Here is our figure.
	Operation, Here string
	// Target is the target if the result has none. Peer is the figure of NVIDIA's program if the result has none.
	Target, Peer string
	// Source says where the figure of NVIDIA's program comes from.
	Source string
}

//go:embed figures.tsv
var table string

// Figures returns the rows of the page, in order.
func Figures() ([]Figure, error) { return parse(table) }

// columns is the first line of the table of figures.
const columns = "area\tfigure\toperation\there\ttarget\tpeer\tsource"

func parse(text string) ([]Figure, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != columns {
		return nil, fmt.Errorf("read figures: line 1 is %q, want %q", lines[0], columns)
	}
	var figures []Figure
	for i, line := range lines[1:] {
		f := strings.Split(line, "\t")
		if len(f) != strings.Count(columns, "\t")+1 {
			return nil, fmt.Errorf("read figures: line %d has %d columns", i+2, len(f))
		}
		if (f[2] == "") == (f[3] == "") {
			return nil, fmt.Errorf("read figures: line %d must have an operation or our figure, and not both", i+2)
		}
		figures = append(figures, Figure{Area: f[0], Name: f[1], Operation: f[2], Here: f[3], Target: f[4], Peer: f[5], Source: f[6]})
	}
	return figures, nil
}
