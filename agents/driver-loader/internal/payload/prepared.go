package payload

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// fromRoot imports a driver root. Sources, modules and firmware are moved to their own folders.
func (f filler) fromRoot() (record, error) {
	from, err := os.OpenRoot(f.src.path)
	if err != nil {
		return record{}, err
	}
	defer from.Close() //nolint:errcheck // the folder was only read
	moved := map[string]string{}
	for _, dir := range sourceFolders(from, f.src.version) {
		to := path.Join(sourceName, string(flavourOf(filepath.Join(f.src.path, dir))))
		if !slices.Contains(slices.Collect(maps.Values(moved)), to) { // the first folder of each flavour
			moved[dir] = to
		}
	}
	mounted, err := mountPoints()
	if err != nil {
		return record{}, err
	}
	skip := func(name string) bool {
		if name != "." && mounted[filepath.Join(f.src.path, name)] {
			return true
		}
		switch name {
		case "dev", "proc", "sys", "run", "tmp", "boot", "lib/modules", "usr/lib/modules", optFirmware, packageFolder:
			return true
		}
		return moved[name] != ""
	}
	if err := f.tree(from, ".", rootName, skip); err != nil {
		return record{}, err
	}
	moved[optFirmware] = f.firmwareFolder()
	for _, dir := range slices.Sorted(maps.Keys(moved)) {
		if err := f.tree(from, dir, moved[dir], nil); err != nil {
			return record{}, err
		}
	}
	if err := f.fromSourcePackages(); err != nil {
		return record{}, err
	}
	for _, dir := range []string{"lib", "usr/lib"} {
		// With a merged /usr, /lib is a link, and its modules are in /usr/lib.
		if info, err := from.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		if err := f.modules(from, dir+"/modules"); err != nil {
			return record{}, err
		}
	}
	return f.prepared(f.src.version)
}

// prepared completes the import of an installed driver.
func (f filler) prepared(version string) (record, error) {
	if err := f.sortModules(version); err != nil {
		return record{}, err
	}
	return record{Payload: Payload{Version: version, Machine: f.machine}}, f.check(version)
}

// optFirmware is the folder with the firmware in NVIDIA's images of precompiled drivers for Red Hat's family, because
// a folder of the host is mounted at /lib/firmware. The kernel does not look there.
const optFirmware = "opt/lib/firmware"

// firmwareFolder returns the folder of the driver root where the kernel looks for firmware.
func (f filler) firmwareFolder() string {
	// Without a merged /usr, /lib is not a link.
	if info, err := f.root.Lstat(path.Join(rootName, "lib")); err == nil && info.IsDir() {
		return path.Join(rootName, "lib/firmware")
	}
	return path.Join(rootName, "usr/lib/firmware")
}

// sourceFolders returns the folders of a root with sources of the driver's modules. Their names depend on the
// distribution: nvidia-580.95.05, nvidia-srv-580.95.05, nvidia-current-580.95.05.
func sourceFolders(from *os.Root, version string) []string {
	found, err := fs.Glob(from.FS(), "usr/src/nvidia*-"+version)
	if err != nil {
		return nil
	}
	var folders []string
	for _, dir := range found {
		if files, err := fs.Glob(from.FS(), path.Join(dir, "nvidia/nv*.c")); err == nil && len(files) > 0 {
			folders = append(folders, dir)
		}
	}
	return folders
}

// modules copies the driver's modules below a folder lib/modules.
func (f filler) modules(from *os.Root, dir string) error {
	err := fs.WalkDir(from.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		to, is := modulePlace(name)
		if err != nil || !is || !e.Type().IsRegular() {
			return err
		}
		if to, err = f.local(to); err != nil {
			return err
		}
		return f.copy(from, name, to, 0o644)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return f.blamed(err)
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

// moduleName reports whether a file is a module of the driver.
func moduleName(name string) bool {
	stem, extension, _ := strings.Cut(name, ".ko")
	return (strings.HasPrefix(stem, "nvidia") || stem == "gdrdrv") && strings.Contains(name, ".ko") &&
		(extension == "" || extension == ".xz" || extension == ".zst" || extension == ".gz")
}
