package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/hostfs"
)

// Dir is a folder of CDI specs, usually /var/run/cdi. Several programs write to it. Each kind has
// one owner.
//
// The owner of a kind writes one file, "<vendor>-<class>.json". It replaces a regular file, or a link
// to one, that has this name. It removes a file only if the file has this name, is a regular file, and
// holds a spec of that kind. It leaves everything else alone: specs of other kinds, even of the same
// vendor, specs of the kind under another name, symbolic links, and files that are not a spec.
type Dir struct {
	Path string
	// Kinds are the kinds that this process owns: "k8s.device-plugin.nvidia.com/gpu".
	Kinds []string
}

// Synced is the result of Sync.
type Synced struct {
	// Changed is set if a spec was written or removed.
	Changed bool
	// Foreign are the files of the folder that hold a spec of an owned kind, but that the owner did
	// not write. A runtime rejects a device that two files define.
	Foreign []string

	files map[string]fs.FileInfo
}

// Sync writes the desired specs, whose kinds d must own, and removes the specs of the
// other kinds that d owns. It does not write a spec that has not changed.
func (d Dir) Sync(desired ...*specs.Spec) (Synced, error) {
	out := Synced{files: map[string]fs.FileInfo{}}
	data := map[string][]byte{}
	for _, spec := range desired {
		if !slices.Contains(d.Kinds, spec.Kind) {
			return out, fmt.Errorf("write CDI spec of kind %q: this process owns %s", spec.Kind, strings.Join(d.Kinds, ", "))
		}
		var err error
		if data[spec.Kind], err = Encode(spec); err != nil {
			return out, err
		}
	}
	if len(desired) > 0 {
		if err := os.MkdirAll(d.Path, 0o755); err != nil {
			return out, fmt.Errorf("create CDI folder %s: %w", d.Path, err)
		}
	}
	errs := []error{d.removeLeftovers()}
	for _, kind := range d.Kinds {
		changed, err := d.syncKind(kind, data[kind])
		out.Changed = out.Changed || changed
		errs = append(errs, err)
		if data[kind] != nil {
			out.files[d.File(kind)] = written(d.File(kind), len(data[kind]))
		}
	}
	var err error
	out.Foreign, err = d.foreign(data)
	return out, errors.Join(append(errs, err)...)
}

// Outdated reports whether another program has removed, truncated or replaced a file
// that Sync wrote.
func (s Synced) Outdated() bool {
	for path, was := range s.files {
		now, err := os.Lstat(path)
		if was == nil || err != nil || !os.SameFile(was, now) || was.Size() != now.Size() ||
			was.Mode() != now.Mode() || !was.ModTime().Equal(now.ModTime()) {
			return true
		}
	}
	return false
}

// written returns the state of a file that was just written. It returns nil if the file no longer
// has this size.
func written(path string, size int) fs.FileInfo {
	info, err := os.Lstat(path)
	if err != nil || info.Size() != int64(size) {
		return nil
	}
	return info
}

// File returns the path of the spec that the owner of a kind writes.
func (d Dir) File(kind string) string {
	vendor, class := parser.ParseQualifier(kind)
	return filepath.Join(d.Path, vendor+"-"+class+".json")
}

// removeLeftovers removes the temporary files that killed processes left for any of the kinds.
func (d Dir) removeLeftovers() error {
	files := make([]string, len(d.Kinds))
	for i, kind := range d.Kinds {
		files[i] = d.File(kind)
	}
	return hostfs.RemoveLeftoversIn(d.Path, files...)
}

// syncKind writes data as the owner's spec of a kind. If data is nil, it removes the
// spec.
func (d Dir) syncKind(kind string, data []byte) (changed bool, err error) {
	path := d.File(kind)
	if data != nil {
		if changed, err = hostfs.WriteIfChanged(path, data, 0o644); err != nil {
			return false, fmt.Errorf("write CDI spec: %w", err)
		}
		return changed, nil
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || kindOf(path) != kind {
		return false, nil //nolint:nilerr // there is nothing of this process
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("remove stale CDI spec: %w", err)
	}
	return true, nil
}

// foreign returns the files of the folder that hold a spec of an owned kind, except
// the files of the kinds in data, which were just written.
func (d Dir) foreign(data map[string][]byte) ([]string, error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list CDI folder %s: %w", d.Path, err)
	}
	own := map[string]bool{}
	for kind := range data {
		own[d.File(kind)] = true
	}
	var out []string
	for _, e := range entries {
		path := filepath.Join(d.Path, e.Name())
		if !own[path] && slices.Contains(d.Kinds, kindOf(path)) {
			out = append(out, path)
		}
	}
	return out, nil
}

// Encode returns the spec as JSON. It returns equal bytes for equal specs.
func Encode(spec *specs.Spec) ([]byte, error) {
	var flat bytes.Buffer
	enc := json.NewEncoder(&flat)
	enc.SetEscapeHTML(false)
	err := enc.Encode(spec)
	// The code indents into one buffer that is large enough. An encoder that indents grows two
	// buffers, and their garbage is a tenth of the heap of an idle agent.
	out := bytes.NewBuffer(make([]byte, 0, 2*flat.Len()))
	if err = errors.Join(err, json.Indent(out, flat.Bytes(), "", "  ")); err != nil {
		return nil, fmt.Errorf("encode CDI spec %s: %w", spec.Kind, err)
	}
	return out.Bytes(), nil
}
