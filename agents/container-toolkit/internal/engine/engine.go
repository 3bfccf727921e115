// Package engine registers the NVIDIA runtimes with a container engine (Docker,
// containerd, CRI-O), and reverts the change byte for byte. It edits config files as text,
// and makes the engine load them only if the running engine does not have the runtimes yet.
package engine

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
)

// Name is the name of a container engine, as in the variable RUNTIME.
type Name string

// The engines.
const (
	Docker     Name = "docker"
	Containerd Name = "containerd"
	CRIO       Name = "crio"
)

func allNames() []Name { return []Name{Docker, Containerd, CRIO} }

// Runtime is a runtime of an engine: the name that containers request, and the program.
type Runtime struct {
	Name, Path string
}

// Desired describes the desired config of an engine.
type Desired struct {
	Runtimes []Runtime
	// Default is the name of the default runtime; "" keeps the default of the engine.
	Default string
	// CDI turns on the engine's support for CDI; false does not change it.
	CDI bool
	// Annotations are the patterns of pod annotations that containerd passes to the
	// runtimes (container_annotations).
	Annotations []string
	// RuntimeType is containerd's runtime_type, for runtimes that do not inherit one.
	RuntimeType string
}

// hasRuntime reports whether a runtime with this name is desired.
func (d Desired) hasRuntime(name string) bool {
	return slices.ContainsFunc(d.Runtimes, func(r Runtime) bool { return r.Name == name })
}

// file is a config file, with the original or the desired content.
type file struct {
	// path is the path on the host.
	path string
	// text is nil if the file does not exist.
	text []byte
}

// Change is a change of a file. A nil Before means that the file does not exist, a nil After
// that it is removed.
type Change struct {
	// Path is the path on the host.
	Path          string
	Before, After []byte
}

// Plan lists the changes that make a config as desired.
type Plan struct {
	Engine Name
	// Changes are in the order of writing.
	Changes []Change
	// Notes tell people about desired settings that the plan omits, and why.
	Notes []string
	// LowLevel is the result of Keeper.LowLevel. The plan of Undo has none.
	LowLevel string
	// record is the data for Undo. It is written to disk before the changes.
	record record
	// target has the places of the files.
	target target
	// read has the files that the plan was made from.
	read []file
}

// Empty reports whether the config is as desired.
func (p Plan) Empty() bool { return len(p.Changes) == 0 }

// edit is the result of a pure edit: notes, the content of each file that this package edits, in the
// order of writing, and the program of the engine's default runtime.
type edit struct {
	files    []file
	notes    []string
	lowLevel string
}

func (e *edit) addNote(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

func (e *edit) addFile(path string, text []byte) {
	e.files = append(e.files, file{path: path, text: text})
}

// textOf returns the content of the file at path, or nil if files do not include it.
func textOf(files []file, path string) []byte {
	i := slices.IndexFunc(files, func(f file) bool { return f.path == path })
	if i < 0 {
		return nil
	}
	return files[i].text
}

// blank reports whether a config has no content.
func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// newFileMode is the mode of files that this package creates.
const newFileMode fs.FileMode = 0o644
