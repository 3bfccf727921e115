package payload

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// fromRoot imports a driver root. Sources and modules are moved to separate folders.
func (f filler) fromRoot() (record, error) {
	from, err := os.OpenRoot(f.src.path)
	if err != nil {
		return record{}, err
	}
	defer from.Close() //nolint:errcheck // the folder was only read
	sources := "usr/src/nvidia-" + f.src.version
	modules := moduleFolders(from)
	mounted, err := mountPoints()
	if err != nil {
		return record{}, err
	}
	skip := func(name string) bool {
		if name != "." && mounted[filepath.Join(f.src.path, name)] {
			return true
		}
		switch name {
		case "dev", "proc", "sys", "run", "tmp", "boot", sources, "lib/modules", "usr/lib/modules":
			return true
		}
		return false
	}
	if err := f.tree(from, ".", rootName, skip); err != nil {
		return record{}, err
	}
	to := path.Join(sourceName, string(flavourOf(filepath.Join(f.src.path, sources))))
	if err := f.tree(from, sources, to, nil); err != nil {
		return record{}, err
	}
	for release, dir := range modules {
		if err := f.modules(from, dir, path.Join(modulesName, release)); err != nil {
			return record{}, err
		}
	}
	r := record{Payload: Payload{Version: f.src.version, Machine: f.machine}}
	return r, f.check(f.src.version)
}

// moduleFolders returns the folders with kernel modules in a root, by kernel release.
func moduleFolders(from *os.Root) map[string]string {
	folders := map[string]string{}
	for _, pattern := range []string{"lib/modules/*", "usr/lib/modules/*"} {
		names, err := fs.Glob(from.FS(), pattern)
		if err != nil {
			continue
		}
		for _, name := range names {
			folders[path.Base(name)] = name
		}
	}
	return folders
}

// modules copies NVIDIA's modules for a kernel into one folder.
func (f filler) modules(from *os.Root, dir, to string) error {
	return fs.WalkDir(from.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !moduleName(path.Base(name)) {
			return err
		}
		target, err := f.local(path.Join(to, path.Base(name)))
		if err != nil {
			return err
		}
		return f.copy(from, name, target, 0o644)
	})
}

// moduleName reports whether a file is a module of the driver.
func moduleName(name string) bool {
	stem, extension, _ := strings.Cut(name, ".ko")
	return (strings.HasPrefix(stem, "nvidia") || stem == "gdrdrv") && strings.Contains(name, ".ko") &&
		(extension == "" || extension == ".xz" || extension == ".zst" || extension == ".gz")
}

// flavourOf returns the flavour of sources, by the license that the module nvidia declares.
func flavourOf(dir string) Flavour {
	proprietary := regexp.MustCompile(`MODULE_LICENSE\s*\(\s*"NVIDIA"\s*\)`)
	for _, pattern := range []string{"nvidia/nv*.c", "kernel-open/nvidia/nv*.c"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			continue
		}
		for _, name := range names {
			if data, err := hostfs.ReadFile(name, maxManifest); err == nil && proprietary.Match(data) {
				return Proprietary
			}
		}
	}
	return Open
}
