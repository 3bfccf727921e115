package payload

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/ldso"
)

// daemonFiles returns the files of driver images that NVIDIA's archive does not have: the daemons for the
// NVLink fabric. They are patterns below the root of the image.
func daemonFiles() []string {
	names := []string{
		"usr/bin/nv-fabricmanager", "usr/bin/nvidia-fabricmanager-start.sh", "usr/bin/nvswitch-audit",
		"usr/bin/nvidia-imex", "usr/bin/nvidia-imex-ctl", "usr/bin/nvlsm", "usr/share/nvidia/nvswitch",
		"usr/share/nvidia/nvlsm", "opt/nvidia/nvlsm", "etc/nvidia-imex",
	}
	for _, lib := range []string{"libnvidia-nscq.so*", "libnvfm.so*", "libnvsdm.so*", "libibumad.so*"} {
		for _, machine := range []string{"x86_64", "aarch64"} {
			names = append(names, path.Join(libraries(machine), lib))
		}
		names = append(names, path.Join("usr/lib64", lib))
	}
	return names
}

// fromFolder imports the content of an archive from the folder dir. If dir is below the folder of
// the writer, the parameter unpacked is the path of dir relative to that folder, and files are linked
// instead of copied. names are the names of the archive, and of its folder.
func (f filler) fromFolder(dir, unpacked string, names ...string) (record, error) {
	from, err := os.OpenRoot(dir)
	if err != nil {
		return record{}, err
	}
	defer from.Close() //nolint:errcheck // the folder was only read
	m, err := f.manifest(from)
	if err != nil {
		return record{}, err
	}
	if err := f.skeleton(); err != nil {
		return record{}, err
	}
	for _, p := range layout(m, f.machine) {
		if !p.staysInRoot() {
			return record{}, problem(cause.PayloadRejected, f.name, fetchAgain, "has a manifest that puts %q at %q", p.from+p.target, p.to)
		}
		p.to = path.Join(rootName, p.to)
		if err := f.putFile(from, p, unpacked); err != nil {
			return record{}, err
		}
	}
	for folder, flavour := range map[string]Flavour{"kernel-open": Open, "kernel": Proprietary} {
		if err := f.tree(from, folder, path.Join(sourceName, string(flavour)), nil); err != nil {
			return record{}, err
		}
	}
	if err := f.daemons(); err != nil {
		return record{}, err
	}
	r := record{Payload: Payload{Version: identity(m.version, names...), Machine: f.machine}, Unknown: m.unknown}
	return r, f.check(m.version)
}

// manifest reads the manifest. It does not follow a link, which could lead to any file of the host.
func (f filler) manifest(from *os.Root) (manifest, error) {
	info, err := from.Lstat(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, problem(cause.PayloadCorrupt, f.name, "use an NVIDIA driver for Linux", "has no file .manifest, so it is not a driver")
	}
	if err != nil {
		return manifest{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifest {
		return manifest{}, problem(cause.PayloadRejected, f.name, fetchAgain, "has a .manifest that is not a regular file of at most %d MiB", maxManifest>>20)
	}
	data, err := from.ReadFile(manifestName)
	if err != nil {
		return manifest{}, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return manifest{}, problem(cause.PayloadCorrupt, f.name, fetchAgain, "has a .manifest that cannot be read: %v", err)
	}
	return m, nil
}

// skeleton creates the folders of a driver root that programs expect, with a merged /usr, and the mount
// points.
func (f filler) skeleton() error {
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "dev", "proc", "run", "sys", "tmp", "var"} {
		if err := f.root.MkdirAll(path.Join(rootName, dir), 0o755); err != nil {
			return f.explain(err)
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := f.link(path.Join(rootName, name), "usr/"+name); err != nil {
			return err
		}
	}
	return f.link(path.Join(rootName, "var/run"), "../run")
}

// putFile puts a file or link of the archive into the driver root.
func (f filler) putFile(from *os.Root, p placement, unpacked string) error {
	if p.from == "" {
		return f.link(p.to, p.target)
	}
	info, err := from.Lstat(p.from)
	if err != nil || !info.Mode().IsRegular() {
		return problem(cause.PayloadTruncated, f.name, fetchAgain, "lacks the file %q of its manifest", p.from)
	}
	if unpacked == "" {
		return f.copy(from, p.from, p.to, p.mode)
	}
	if err := f.hardLink(path.Join(unpacked, p.from), p.to); err != nil {
		return err
	}
	return f.explain(f.root.Chmod(p.to, plain(p.mode)))
}

func (f filler) copy(from *os.Root, name, to string, mode fs.FileMode) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	return f.file(to, f.reader(in), mode)
}

// tree copies the files and links of a folder, if it exists. It skips special files, and names that skip
// returns true for.
func (f filler) tree(from *os.Root, dir, to string, skip func(string) bool) error {
	return f.blamed(fs.WalkDir(from.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == dir {
			return nil
		}
		if err != nil {
			return err
		}
		if skip != nil && skip(name) {
			return skipEntry(e)
		}
		target, err := f.local(path.Join(to, strings.TrimPrefix(name, dir)))
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return f.explain(f.root.MkdirAll(target, 0o755))
		case e.Type() == fs.ModeSymlink:
			link, err := from.Readlink(name)
			if err != nil {
				return err
			}
			return f.link(target, link)
		case e.Type().IsRegular():
			info, err := e.Info()
			if err != nil {
				return err
			}
			return f.copy(from, name, target, info.Mode())
		}
		return nil
	}))
}

// daemons copies the daemons for the NVLink fabric from the driver image.
func (f filler) daemons() error {
	if f.src.image == "" {
		return nil
	}
	image, err := os.OpenRoot(f.src.image)
	if err != nil {
		return err
	}
	defer image.Close() //nolint:errcheck // the folder was only read
	for _, pattern := range daemonFiles() {
		names, err := fs.Glob(image.FS(), pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := f.tree(image, name, path.Join(rootName, name), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromTree imports a source tree of the open modules.
func (f filler) fromTree() (record, error) {
	from, err := os.OpenRoot(f.src.path)
	if err != nil {
		return record{}, err
	}
	defer from.Close() //nolint:errcheck // the folder was only read
	flavour := flavourOf(f.src.path)
	to := path.Join(sourceName, string(flavour))
	skip := func(name string) bool { return path.Base(name) == ".git" }
	return record{Payload: Payload{Version: f.src.version}}, f.tree(from, ".", to, skip)
}

// check returns an error unless the driver root has NVML and CUDA for this architecture.
func (f filler) check(version string) error {
	machines := map[string]ldso.Machine{"x86_64": ldso.X8664, "aarch64": ldso.AArch64}
	for _, stem := range []string{"libnvidia-ml.so.", "libcuda.so."} {
		name, lib := f.library(stem + version)
		if lib == nil {
			return problem(cause.PayloadTruncated, f.name, fetchAgain, "lacks the library %s%s", stem, version)
		}
		library, is := ldso.ReadLibrary(lib)
		if err := lib.Close(); err != nil {
			return err
		}
		if !is {
			return problem(cause.PayloadCorrupt, f.name, fetchAgain, "has a file %s that is not a library", name)
		}
		if library.Machine != machines[f.machine] {
			return problem(cause.WrongArchitecture, f.name, "use the driver for "+f.machine, "has a %s for another processor (ELF machine %d); this node is %s", name, library.Machine, f.machine)
		}
	}
	return nil
}

// library opens a library of the driver root, and returns its path there. The file is nil if it does not exist.
func (f filler) library(file string) (string, *os.File) {
	for _, dir := range libraryFolders(f.machine) {
		name := path.Join(dir, file)
		if lib, err := f.root.Open(path.Join(rootName, name)); err == nil {
			return name, lib
		}
	}
	return "", nil
}
