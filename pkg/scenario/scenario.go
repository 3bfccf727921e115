// Package scenario reads a file with events of simulated GPUs at given times, and derives the
// commands of gpu-sim that simulate them. gpu-sim plays a file on its node, and kubectl outrigger
// plays it on the nodes of a cluster. Parse does no I/O.
package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"outrigger.dev/pkg/config/strict"
)

// Step is an event of a scenario.
type Step struct {
	// At is the time since the start of the scenario.
	At time.Duration
	// Line is the line of the event in the file.
	Line int
	// Node is the name of the node. Empty means each node on which the scenario is played.
	Node string
	// Commands are the commands of gpu-sim, without its name, in the order in which they have to run.
	Commands [][]string
}

// Known has the names that the simulator knows. Nil accepts all names: the command then fails on the
// node.
type Known struct {
	// Fields are the fields of "gpu-sim set GPU.FIELD=VALUE". Models are the names of products.
	Fields, Models []string
}

// Parse returns the events of a file, ordered by time. The error has all mistakes of the file, each
// with its line.
func Parse(file string, data []byte, known Known) ([]Step, error) {
	doc := strict.Parse(file, data)
	var steps []Step
	root := doc.Root()
	for _, entry := range root.List() {
		steps = append(steps, parser{known}.step(entry))
	}
	if !root.Set() {
		root.Missing(`a list of events, such as "- {at: 30s, gpu: 3, xid: 79}"`)
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps, nil
}

// Nodes returns the names of the nodes in steps, sorted, and whether a step is for all nodes.
func Nodes(steps []Step) (names []string, all bool) {
	for _, s := range steps {
		if s.Node == "" {
			all = true
		} else {
			names = append(names, s.Node)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), all
}

// String returns the step as "--dry-run" prints it: its time, its node and its commands.
func (s Step) String() string {
	var lines []string
	for _, c := range s.Commands {
		lines = append(lines, "gpu-sim "+strings.Join(c, " "))
	}
	if s.Node != "" {
		return fmt.Sprintf("%6s  %s: %s", s.At, s.Node, strings.Join(lines, " && "))
	}
	return fmt.Sprintf("%6s  %s", s.At, strings.Join(lines, " && "))
}
