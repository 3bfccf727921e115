// Package depmod finds the kernel's own modules that the driver's modules depend on. It reads the
// lists that depmod(8) writes.
package depmod

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// maxList is the largest size of a list, in bytes. Lists of distributions have some hundred kilobytes.
const maxList = 16 << 20

// Index lists the modules and the built-in parts of a kernel release.
type Index struct {
	dir string
	// needs lists the files that a file depends on, in the order of modules.dep, all relative to dir.
	needs map[string][]string
	// files maps the names of modules to their files.
	files   map[string]string
	builtin map[string]bool
}

// Read reads the lists in the folder of a release, such as /lib/modules/6.1.0-56-amd64. Without
// lists, the Index has no modules.
func Read(dir string) (Index, error) {
	x := Index{dir: dir, needs: map[string][]string{}, files: map[string]string{}, builtin: map[string]bool{}}
	err := lines(filepath.Join(dir, "modules.dep"), func(line string) {
		file, needs, _ := strings.Cut(line, ":")
		x.needs[file] = strings.Fields(needs)
		x.files[name(file)] = file
	})
	return x, errors.Join(err, lines(filepath.Join(dir, "modules.builtin"), func(line string) { x.builtin[name(line)] = true }))
}

// Files returns a module and all modules that it depends on, in load order. For a built-in module,
// it returns none.
func (x Index) Files(module string) ([]File, error) {
	file, ok := x.files[module]
	switch {
	case ok:
	case x.builtin[module]:
		return nil, nil
	default:
		return nil, cause.New(cause.KernelModuleMissing, "module "+module, "the driver needs it, but "+x.dir+" does not have it")
	}
	// modules.dep lists direct dependencies first. The order of loading is the reverse.
	out := []File{{Name: module, Path: x.path(file)}}
	for _, needed := range x.needs[file] {
		out = append(out, File{Name: name(needed), Path: x.path(needed)})
	}
	slices.Reverse(out)
	return out, nil
}

// File is a module of the kernel and its path.
type File struct{ Name, Path string }

// path returns the path of a file. Old lists have absolute paths on the host.
func (x Index) path(file string) string {
	if i := strings.Index(file, "/kernel/"); filepath.IsAbs(file) && i >= 0 {
		file = file[i:]
	}
	return filepath.Join(x.dir, file)
}

// name returns the name of a module for the name of its file.
func name(file string) string {
	base, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// lines calls f with each line of a file. A missing file has no lines.
func lines(path string, f func(line string)) error {
	data, err := hostfs.ReadFile(path, maxList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the list of the kernel's modules: %w", err)
	}
	s := bufio.NewScanner(strings.NewReader(string(data)))
	s.Buffer(nil, maxList)
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" {
			f(line)
		}
	}
	return s.Err()
}
