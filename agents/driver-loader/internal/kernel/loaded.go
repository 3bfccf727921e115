package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/hostfs"
)

// Modules returns the loaded modules of the running kernel, by name. Built-in modules are not
// included.
func Modules(root Root) (map[string]Loaded, error) {
	dir := root.sys("module")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the loaded modules: %w", err)
	}
	out := map[string]Loaded{}
	for _, entry := range entries {
		m, err := loaded(root, entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the loaded module %s: %w", entry.Name(), err)
		}
		out[m.Name] = m
	}
	return out, nil
}

// loaded returns a loaded module. If the module is not loaded or is built in, the error wraps
// fs.ErrNotExist.
func loaded(root Root, name string) (Loaded, error) {
	dir := root.sys(filepath.Join("module", name))
	// The kernel creates this file only for loaded modules.
	state, err := readValue(filepath.Join(dir, "initstate"))
	if errors.Is(err, unix.ENODEV) {
		// The module was unloaded after it was listed.
		err = fs.ErrNotExist
	}
	if err != nil {
		return Loaded{}, err
	}
	m := Loaded{
		Name: name, State: state, RefCount: -1,
		Version:    readValueOr(filepath.Join(dir, "version"), ""),
		SrcVersion: readValueOr(filepath.Join(dir, "srcversion"), ""),
		Taint:      readValueOr(filepath.Join(dir, "taint"), ""),
		Params:     map[string]string{},
	}
	if note, err := hostfs.ReadFile(filepath.Join(dir, "notes/.note.gnu.build-id"), maxLine); err == nil {
		m.BuildID = module.BuildID(note)
	}
	if n, err := strconv.Atoi(readValueOr(filepath.Join(dir, "refcnt"), "")); err == nil {
		m.RefCount = n
	}
	if m.Holders, err = names(filepath.Join(dir, "holders")); err != nil {
		return Loaded{}, err
	}
	params, err := names(filepath.Join(dir, "parameters"))
	if err != nil {
		return Loaded{}, err
	}
	for _, param := range params {
		// Some parameters are write-only.
		if value, err := readValue(filepath.Join(dir, "parameters", param)); err == nil {
			m.Params[param] = value
		}
	}
	return m, nil
}

// names returns the names of a folder's entries in order. A missing folder has no entries.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out, nil
}
