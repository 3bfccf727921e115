package payload

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
)

// License is the license that the module nvidia of the proprietary flavour states. Other modules of this flavour state
// other licenses: nvidia-uvm "Dual MIT/GPL", nvidia-drm "MIT", nvidia-peermem "Linux-OpenIB".
const License = "NVIDIA"

// core is the name of the module whose license shows the flavour of all modules.
const core = "nvidia"

// PartsName is the name of a folder with the parts of modules, in Ubuntu's packages of proprietary modules: objects, the
// script LinkName that links them, digests of the modules, and their signatures.
const PartsName = "bits"

// LinkName is the name of the script in the folder PartsName that links the modules.
const LinkName = "BUILD"

// FlavourOf returns the flavour that a module shows. Only the module nvidia shows it.
func FlavourOf(m *module.Module) (Flavour, bool) {
	switch {
	case m.Name != core:
		return "", false
	case m.License == License:
		return Proprietary, true
	}
	return Open, true
}

// modulePath matches the path of a file below lib/modules: the release of the kernel, the folder, and the file.
func modulePath() *regexp.Regexp {
	return regexp.MustCompile(`^(?:usr/)?lib/modules/([^/]+)/(?:(.+)/)?([^/]+)$`)
}

// modulePlace returns the place of a file below lib/modules, if it is a module of the driver or a part of one. The
// folder below the release has the name of the file's folder, until sortModules renames it.
func modulePlace(name string) (string, bool) {
	found := modulePath().FindStringSubmatch(name)
	if found == nil {
		return "", false
	}
	folder := strings.Split(found[2], "/")
	for i, element := range folder {
		if element == PartsName && i > 0 && strings.HasPrefix(folder[i-1], "nvidia") {
			flat := "+" + strings.Join(folder[:i], "+")
			return path.Join(modulesName, found[1], flat, path.Join(folder[i:]...), found[3]), true
		}
	}
	return path.Join(modulesName, found[1], "+"+strings.Join(folder, "+"), found[3]), moduleName(found[3])
}

// sortModules names the folders of precompiled modules after their flavours. It removes modules of other drivers.
func (f filler) sortModules(version string) error {
	releases, err := fs.ReadDir(f.root.FS(), modulesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, release := range releases {
		if err := f.sortRelease(path.Join(modulesName, release.Name()), version); err != nil {
			return err
		}
	}
	return nil
}

// sortRelease is sortModules for the folder of one release of the kernel.
func (f filler) sortRelease(dir, version string) error {
	folders, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return err
	}
	var flavours, others []string
	for _, folder := range folders {
		from := path.Join(dir, folder.Name())
		flavour, found, err := f.flavourIn(from, version)
		switch to := path.Join(dir, string(flavour)); {
		case err != nil:
			return err
		case !found:
			others = append(others, from)
		case flavour != "" && !isDir(filepath.Join(f.root.Name(), to)):
			flavours = append(flavours, to)
			err = f.root.Rename(from, to)
		default:
			err = f.root.RemoveAll(from)
		}
		if err != nil {
			return f.explain(err)
		}
	}
	// Modules of other packages, such as nvidia-fs, work with each flavour.
	for _, from := range others {
		if err := f.share(from, flavours); err != nil {
			return err
		}
	}
	return nil
}

// share links the modules of a folder into other folders, and removes the folder.
func (f filler) share(from string, to []string) error {
	files, err := fs.ReadDir(f.root.FS(), from)
	if err != nil {
		return err
	}
	for _, file := range files {
		for _, dir := range to {
			err := f.root.Link(path.Join(from, file.Name()), path.Join(dir, file.Name()))
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return f.explain(err)
			}
		}
	}
	return f.explain(f.root.RemoveAll(from))
}

// flavourIn returns the flavour of the modules in a folder, which is "" for modules of another driver. found is false if
// the folder does not have the module nvidia.
func (f filler) flavourIn(dir, version string) (flavour Flavour, found bool, err error) {
	files, err := filepath.Glob(filepath.Join(f.root.Name(), dir, "nvidia*.ko*"))
	if err != nil {
		return "", false, err
	}
	for _, file := range files {
		m, err := module.Read(file)
		if err != nil {
			return "", false, problem(cause.PayloadCorrupt, f.name, fetchAgain, "has a module that cannot be read: %v", err)
		}
		switch flavour, found := FlavourOf(m); {
		case !found:
		case m.Version != ModuleVersion(version):
			return "", true, nil
		default:
			return flavour, true, nil
		}
	}
	// Only proprietary modules are distributed in parts. A package with signatures for several drivers also has folders
	// for drivers that are not in the image.
	parts := filepath.Join(f.root.Name(), dir, PartsName)
	if _, err := os.Lstat(filepath.Join(parts, LinkName)); err == nil {
		return Proprietary, true, nil
	}
	return "", isDir(parts), nil
}

// locateModules sets Precompiled.
func (p *Payload) locateModules() {
	p.Precompiled = map[string]map[Flavour]string{}
	for _, flavour := range []Flavour{Open, Proprietary} {
		dirs, err := filepath.Glob(filepath.Join(p.Dir, modulesName, "*", string(flavour)))
		if err != nil {
			continue
		}
		for _, dir := range dirs {
			release := filepath.Base(filepath.Dir(dir))
			if p.Precompiled[release] == nil {
				p.Precompiled[release] = map[Flavour]string{}
			}
			p.Precompiled[release][flavour] = dir
		}
	}
}

// Flavours returns the flavours whose modules can be loaded or built for a kernel.
func (p Payload) Flavours(release string) []Flavour {
	var out []Flavour
	for _, flavour := range []Flavour{Open, Proprietary} {
		if p.Sources[flavour] != "" || p.Precompiled[release][flavour] != "" {
			out = append(out, flavour)
		}
	}
	return out
}
