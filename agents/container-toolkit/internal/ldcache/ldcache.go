// Package ldcache makes the libraries that were mounted into a container known to its dynamic
// loader. It replaces ldconfig. The host's ldconfig would read files of a hostile image, and the
// container's ldconfig may be hostile itself.
package ldcache

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/ldso"
)

const (
	cacheFile = "/etc/ld.so.cache"
	confFile  = "/etc/ld.so.conf"
	confDir   = "/etc/ld.so.conf.d"
	// ownConf lists the added folders, for an ldconfig that runs in the container later. Its name is
	// constant, so that a restarted container has the same files.
	ownConf = confDir + "/00-nvcr-driver.conf"
	// CompatConf lists the folder of the CUDA compatibility libraries. It sorts before ownConf, so that
	// these libraries come first.
	CompatConf = confDir + "/00-compat-driver.conf"
)

// Update adds folders of the container to the search path of its loader. For glibc, it writes the
// cache and ld.so.conf.d. For musl, it writes the path file. It also creates the links from SONAMEs
// to libraries, as ldconfig does, even if the container has no loader.
//
// If a file cannot be written because its file system is read-only, or because another file is
// mounted at its path, Update calls warn and continues. Most containers find the libraries in the
// folders that a loader searches by default.
func Update(root *rootfs.Root, folders []string, warn func(string)) error {
	u := update{root: root, warn: warn, arch: thisArch(), searched: map[dirID]bool{}}
	for _, f := range folders {
		f = path.Clean("/" + f)
		if d, ok := u.identify(f); ok && !slices.ContainsFunc(u.folders, d.sameFolder) {
			u.folders = append(u.folders, d)
		}
	}
	glibc, musl := u.loaders()
	if musl {
		if err := u.musl(); err != nil {
			return err
		}
	}
	if glibc {
		return u.glibc()
	}
	// The cache is not needed without a loader, but programs may open the links by name.
	for _, d := range u.folders {
		u.scan(d, nil)
	}
	return nil
}

// update is one call of Update.
type update struct {
	root    *rootfs.Root
	warn    func(string)
	arch    arch
	folders []dir
	// searched has the folders that were read.
	searched map[dirID]bool
	// named is the number of names that were read to match patterns.
	named int
}

// dir is a folder. A folder can have several paths.
type dir struct {
	path string
	id   dirID
}

type dirID struct{ device, inode uint64 }

func (d dir) sameFolder(other dir) bool { return d.id == other.id }

// identify returns the folder at a path.
func (u *update) identify(name string) (dir, bool) {
	info, err := u.root.Stat(name)
	if err != nil || !info.Mode.IsDir() {
		return dir{}, false
	}
	return dir{path: name, id: dirID{info.Device, info.Inode}}, true
}

// loaders reports which loaders the container has.
func (u *update) loaders() (glibc, musl bool) {
	for _, name := range append(u.arch.loaders, cacheFile, confFile) {
		glibc = glibc || u.root.Has(name)
	}
	return glibc, u.root.Has(u.arch.musl) || u.root.Has("/etc/alpine-release")
}

// glibc writes ld.so.conf.d and the cache.
func (u *update) glibc() error {
	dirs, err := u.search()
	if err != nil {
		return err
	}
	data, err := u.cache(dirs)
	if err != nil {
		return err
	}
	return u.write(cacheFile, data)
}

// cache returns the new cache.
func (u *update) cache(dirs []dir) ([]byte, error) {
	old := u.present()
	var entries []ldso.Entry
	for _, d := range dirs {
		entries = append(entries, u.scan(d, old)...)
	}
	return ldso.Encode(append(entries, old.others(u.searched)...))
}

// write replaces a file of the container. If the file cannot be replaced, it warns.
func (u *update) write(name string, data []byte) error {
	err := u.root.WriteFile(name, data, 0o644)
	if rootfs.CannotChange(err) {
		u.warn(err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("update the loader's cache: %w", err)
	}
	return nil
}

// read returns a small file, or nothing if the file does not exist. If the file cannot be read, for
// example because it is a folder, read warns.
func (u *update) read(name string, limit int64) []byte {
	data, err := u.root.ReadFile(name, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.warn(err.Error())
	}
	return data
}
