// Package engine registers the NVIDIA runtimes with a container engine (Docker,
// containerd, CRI-O), and takes that back byte for byte. It changes config files as text,
// and has the engine load them only if the running engine does not have them yet.
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

// Runtime is a runtime of an engine: the name that containers ask for, and the program.
type Runtime struct {
	Name, Path string
}

// Desired is what the config of an engine should say.
type Desired struct {
	Runtimes []Runtime
	// Default is the name of the default runtime; "" leaves the engine's.
	Default string
	// CDI turns the engine's own support for CDI on; false leaves it as it is.
	CDI bool
	// Annotations are the patterns of pod annotations that containerd passes to the
	// runtimes (container_annotations).
	Annotations []string
	// RuntimeType is containerd's runtime_type, for runtimes that inherit none.
	RuntimeType string
}

// hasRuntime reports whether a runtime of this name is one of the desired ones.
func (d Desired) hasRuntime(name string) bool {
	return slices.ContainsFunc(d.Runtimes, func(r Runtime) bool { return r.Name == name })
}

// file is a config file as it was before this package changed it.
type file struct {
	// path is the path on the host.
	path string
	// text is nil if the file does not exist.
	text []byte
}

// Change is a file whose content should be another one. A nil Before is a file that does
// not exist, a nil After one that should not.
type Change struct {
	// Path is the path on the host.
	Path          string
	Before, After []byte
}

// Plan is what has to be written for a config to be as desired.
type Plan struct {
	Engine Name
	// Changes are in the order of writing.
	Changes []Change
	// Notes are for people: what the plan does not do, and why.
	Notes []string
	// record is what has to be on disk before the changes, for undo.
	record record
	// target is how the files were found.
	target target
}

// Empty reports whether the config is as desired.
func (p Plan) Empty() bool { return len(p.Changes) == 0 }

// edit is the result of a pure edit: the content of each file that this package has a
// part in, in the order of writing, and notes.
type edit struct {
	files []file
	notes []string
}

func (e *edit) addNote(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

// addFile sets the content of a file.
func (e *edit) addFile(path string, text []byte) {
	e.files = append(e.files, file{path: path, text: text})
}

// textOf returns the content of a file of files, or nil.
func textOf(files []file, path string) []byte {
	i := slices.IndexFunc(files, func(f file) bool { return f.path == path })
	if i < 0 {
		return nil
	}
	return files[i].text
}

// blank reports whether a config has no content.
func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// newFileMode is the mode of files that did not exist.
const newFileMode fs.FileMode = 0o644
