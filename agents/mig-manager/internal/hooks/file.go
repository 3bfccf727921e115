// Package hooks reads the hooks files of mig-parted, version v1, and runs the programs in
// them: what an administrator wants to happen around a change of MIG layouts.
package hooks

import (
	"fmt"

	"outrigger.dev/pkg/config/strict"
)

// Point is a moment of an apply at which hooks run.
type Point string

// The points, in their order.
const (
	// ApplyStart comes before the GPUs are looked at.
	ApplyStart Point = "apply-start"
	// PreApplyMode comes before a change of a MIG mode.
	PreApplyMode Point = "pre-apply-mode"
	// PreApplyConfig comes before a change of a MIG layout.
	PreApplyConfig Point = "pre-apply-config"
	// ApplyExit comes at the end, always.
	ApplyExit Point = "apply-exit"
)

// version is the only version of the format.
const version = "v1"

// Hook is a program to run.
type Hook struct {
	Command string
	Args    []string
	// Env has variables by name. The program gets no others but those of Runner.Env.
	Env map[string]string
	// Dir is the working folder; empty for that of this process.
	Dir string
	// At is the place of the hook in its file, for errors.
	At string
}

// File is a hooks file: what runs at each point, in order.
type File map[Point][]Hook

// Read reads a hooks file, which errors call file. It reports all errors at once. The keys
// are those of mig-parted; unknown ones, which it ignores, are errors.
func Read(file string, data []byte) (File, error) {
	doc := strict.Parse(file, data)
	root := doc.Root().Map("version", "hooks")
	if v := root.Get("version"); !v.Set() {
		v.Missing(version)
	} else if word, ok := v.Text(); ok && word != version {
		v.Bad(version)
	}
	points := []Point{ApplyStart, PreApplyMode, PreApplyConfig, ApplyExit}
	names := make([]string, 0, len(points))
	for _, p := range points {
		names = append(names, string(p))
	}
	all := root.Get("hooks").Map(names...)
	out := File{}
	for _, p := range points {
		for _, v := range all.Get(string(p)).List() {
			h := readHook(v)
			h.At = fmt.Sprintf("%s:%d: %s", file, v.Line(), v.Key())
			out[p] = append(out[p], h)
		}
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

func readHook(v strict.Value) Hook {
	m := v.Map("command", "args", "envs", "workdir")
	h := Hook{Env: map[string]string{}}
	command := m.Get("command")
	if h.Command, _ = command.Text(); h.Command == "" && !command.IsList() && !command.IsMap() {
		command.Missing("the path of a program")
	}
	for _, arg := range m.Get("args").List() {
		word, _ := arg.Text()
		h.Args = append(h.Args, word)
	}
	for _, e := range m.Get("envs").Entries() {
		word, _ := e.Text()
		h.Env[e.Name] = word
	}
	h.Dir, _ = m.Get("workdir").Text()
	return h
}
