// Package driverroot finds the parts of a driver installation: libraries,
// binaries, firmware, configuration files, sockets and device nodes.
//
// A driver root is a folder that holds the driver in the layout of "/": the host's root folder, or
// a folder such as /run/nvidia/driver into which a driver container installs. Symbolic links are
// resolved as for a process with that root, and never lead out of it. The result is a plain value,
// the input of package cdi for CDI specs. The file parts.go is the table of a driver's parts and
// of the driver capabilities that need them.
package driverroot

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// Config locates a driver installation. The zero value is the host's root folder, for a process
// that runs on the host.
type Config struct {
	// HostPath is the driver root on the host. Default: "/".
	HostPath string
	// CtrPath is the driver root's path for this process. Default: HostPath.
	CtrPath string
	// DevRoot is the folder on the host whose subfolder "dev" holds the device nodes. Default:
	// HostPath if it has a control node, otherwise "/".
	DevRoot string
	// ProcRoot is the path of the host's /proc for this process. Default: "/proc".
	ProcRoot string
	// SysRoot is the path of the host's /sys for this process. Default: "/sys".
	SysRoot string
	// HostDev is the path of the host's /dev for this process. Default: "/dev".
	HostDev string
	// LibraryDirs and ConfigDirs are folders of the driver root that are searched for libraries and
	// configuration files before the usual folders.
	LibraryDirs, ConfigDirs []string
}

// Root is a driver installation. It holds only paths: each call reads the disk.
type Root struct {
	host string
	ctr  string
	dev  string
	proc string
	sys  string
	// hostDev is the path of the host's /dev for this process.
	hostDev string
	// extraLibs and configDirs are searched before the usual folders.
	extraLibs, configDirs []string

	// folders caches lookups of folders within one call of Find, because some two hundred paths are
	// in a few dozen folders.
	folders map[string]*lookupResult
	// nodes caches the state of the folders of device nodes.
	nodes map[string]identity
	// begun is the start time of the call in progress.
	begun time.Time
}

// lookupResult is the cached result of a lookup.
type lookupResult struct {
	entry entry
	err   error
	// listed is set if the entries of the folder count.
	listed bool
}

// New returns the driver installation that cfg describes. It does no I/O.
func New(cfg Config) (*Root, error) {
	r := &Root{
		host: orDefault(cfg.HostPath, "/"),
		proc: orDefault(cfg.ProcRoot, "/proc"),
		sys:  orDefault(cfg.SysRoot, "/sys"),

		hostDev:    orDefault(cfg.HostDev, "/dev"),
		extraLibs:  cfg.LibraryDirs,
		configDirs: cfg.ConfigDirs,
	}
	r.ctr = orDefault(cfg.CtrPath, r.host)
	if cfg.DevRoot != "" {
		r.dev = filepath.Clean(cfg.DevRoot)
	}
	for name, p := range map[string]string{"driver root": r.host, "driver root as seen here": r.ctr, "device root": r.dev} {
		if p != "" && !filepath.IsAbs(p) {
			return nil, fmt.Errorf("use %q as %s: it is not an absolute path", p, name)
		}
	}
	return r, nil
}

// HostPath returns the driver root on the host.
func (r *Root) HostPath() string { return r.host }

// CtrPath returns the driver root's path for this process.
func (r *Root) CtrPath() string { return r.ctr }

// DevRoot returns the folder on the host whose subfolder "dev" holds the device nodes.
func (r *Root) DevRoot() string { return r.devRoot().host }

// Dev returns the folder of the device nodes, as this process sees it. It is the host's folder
// unless the nodes are in the driver root.
func (r *Root) Dev() string {
	if root := r.DevRoot(); root != "/" {
		if seen, ok := r.CtrPathOf(root); ok {
			return filepath.Join(seen, "dev")
		}
	}
	return r.hostDev
}

// HostDev returns the path of Dev on the host.
func (r *Root) HostDev() string {
	if dev := r.Dev(); dev == r.hostDev {
		return dev
	}
	return filepath.Join(r.DevRoot(), "dev")
}

// Changing returns the folders, as this process sees them, that change when a driver
// is installed, completed or loaded. The folders need not exist.
func (r *Root) Changing() []string {
	dev := r.hostDev
	if r.dev != "" && r.dev != "/" {
		dev = filepath.Join(r.dev, "dev")
	}
	paths := []string{dev, r.ctr, filepath.Join(r.ctr, "usr/bin")}
	for _, dir := range LoaderDirs() {
		paths = append(paths, filepath.Join(r.ctr, dir))
	}
	return paths
}

// CtrPathOf converts a path of the host to the path for this process. It returns false for a path
// outside the driver root, which this process might not see.
func (r *Root) CtrPathOf(hostPath string) (string, bool) {
	rel, ok := relativeTo(r.host, hostPath)
	if !ok {
		return "", false
	}
	return filepath.Join(r.ctr, rel), true
}

// entry is an existing file or folder in the root.
type entry struct {
	// rel is the requested path in the root: "/usr/bin/x".
	rel string
	// real is rel without symbolic links.
	real string
	info fs.FileInfo
}

// locate finds rel in the root. Links are resolved inside the root.
func (r *Root) locate(rel string) (entry, error) {
	e, err := r.lookup(rel)
	if f, ok := r.folders[parentOf(rel)]; ok {
		f.listed = true
	}
	return e, err
}

func (r *Root) lookup(rel string) (entry, error) {
	dir, base := path.Split(rel)
	if dir == "" || base == "" || base == "." || base == ".." {
		return r.resolve(rel)
	}
	parent, err := r.folder(dir)
	if err != nil {
		return entry{}, err
	}
	e := entry{rel: filepath.Join("/", rel), real: filepath.Join(parent.real, base)}
	if e.info, err = os.Lstat(r.ctrPathOf(e)); err != nil {
		return entry{}, err
	}
	if e.info.Mode().Type() == fs.ModeSymlink {
		return r.resolve(rel)
	}
	return e, nil
}

// folder is locate for a folder, with a cache.
func (r *Root) folder(dir string) (entry, error) {
	dir = strings.TrimRight(dir, "/")
	if known, ok := r.folders[dir]; ok {
		return known.entry, known.err
	}
	e, err := r.lookup(dir)
	if r.folders != nil {
		r.folders[dir] = &lookupResult{entry: e, err: err}
	}
	return e, err
}

// list is folder for a caller that reads the entries.
func (r *Root) list(dir string) (entry, error) {
	e, err := r.folder(dir)
	if f, ok := r.folders[strings.TrimRight(dir, "/")]; ok {
		f.listed = true
	}
	return e, err
}

func parentOf(rel string) string {
	dir, _ := path.Split(rel)
	return strings.TrimRight(dir, "/")
}

// resolve finds rel and follows the symbolic links in every part of its path.
func (r *Root) resolve(rel string) (entry, error) {
	p, err := securejoin.SecureJoin(r.ctr, rel)
	if err != nil {
		return entry{}, err
	}
	info, err := os.Lstat(p)
	if err != nil {
		return entry{}, err
	}
	real, ok := relativeTo(r.ctr, p)
	if !ok {
		return entry{}, fmt.Errorf("resolve %s: %s is outside of %s", rel, p, r.ctr)
	}
	return entry{rel: filepath.Join("/", rel), real: filepath.Join("/", real), info: info}, nil
}

// file returns e in the form of a mount for containers.
func (r *Root) file(e entry, c Capabilities) File {
	return File{HostPath: filepath.Join(r.host, e.real), Path: e.rel, Capabilities: c}
}

// ctrPathOf returns the path of e for this process.
func (r *Root) ctrPathOf(e entry) string { return filepath.Join(r.ctr, e.real) }

// onHost returns the host paths of paths in the root.
func (r *Root) onHost(rels ...string) []string {
	out := make([]string, 0, len(rels))
	for _, rel := range rels {
		out = append(out, filepath.Join(r.host, rel))
	}
	return out
}

// relativeTo returns p relative to root, and false if p is not root or below it.
func relativeTo(root, p string) (string, bool) {
	rel, err := filepath.Rel(root, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return rel, true
}

func orDefault(p, def string) string {
	if p == "" {
		return def
	}
	return filepath.Clean(p)
}
