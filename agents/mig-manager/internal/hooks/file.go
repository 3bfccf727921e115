// Package hooks reads mig-parted's hooks files, version v1. It runs the programs in them, which an
// administrator wants to run before and after changes of MIG layouts.
package hooks

import (
	"fmt"
	"path/filepath"

	"outrigger.dev/pkg/config/strict"
	"outrigger.dev/pkg/hostfs"
)

// Point is a point in time when hooks run.
type Point string

// The points, in order.
const (
	// ApplyStart is the point before the GPUs are observed.
	ApplyStart Point = "apply-start"
	// PreApplyMode is the point before a MIG mode changes.
	PreApplyMode Point = "pre-apply-mode"
	// PreApplyConfig is the point before a MIG layout changes.
	PreApplyConfig Point = "pre-apply-config"
	// ApplyExit is the end of the command, even after an error.
	ApplyExit Point = "apply-exit"
)

// version is the only version of the file format.
const version = "v1"

// Hook is a program to run.
type Hook struct {
	Command string
	Args    []string
	// Env has environment variables. The program gets only these and the variables of Runner.Env.
	Env map[string]string
	// Dir is the working folder. Default: the folder of this process.
	Dir string
	// At is the place of the hook in its file, for errors.
	At string
}

// maxFile is the largest size of a hooks file, in bytes.
const maxFile = 1 << 20

// File has the hooks of each point, in order.
type File map[Point][]Hook

// ReadFile reads the hooks file at a path. It rejects a file that users other than root can change or
// replace (hostfs.Trusted).
func ReadFile(path string) (File, error) {
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = hostfs.Trusted("/", real)
	}
	if err != nil {
		return nil, err
	}
	data, err := hostfs.ReadFile(real, maxFile)
	if err != nil {
		return nil, err
	}
	return Read(path, data)
}

// Read parses a hooks file. file is the name in errors. It reports all errors at once. The keys are
// mig-parted's. Unknown keys, which mig-parted ignores, are errors.
func Read(file string, data []byte) (File, error) {
	doc := strict.Parse(file, data)
	root := doc.Root().Map("version", "hooks")
	root.Get("version").Require(version)
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
