package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/mountinfo"
)

// source describes the source of an import.
type source struct {
	// form is the form of the driver.
	form form
	// path is the path of the archive, or of the folder with the driver.
	path string
	// image is the root of the driver image that has path, or "".
	image string
	// version is the version of the driver, or "" if only the content shows it.
	version string
	// stamp is a digest of names, sizes and times. It changes when the source changes.
	stamp string
	// size is the largest possible size of the source, in bytes.
	size int64
}

type form string

const (
	runArchive   form = "archive"
	extracted    form = "extracted archive"
	preparedRoot form = "driver root"
	sourceTree   form = "source tree"
	packages     form = "packages"
)

// recognise finds the driver at a path. If a driver image has several drivers, it chooses the wanted version.
func recognise(path, machine, wanted string) (source, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, problem(cause.PayloadMissing, path, "use the path of a .run archive, of its extracted content, of the root of a driver image, or of a source tree", "does not exist")
	}
	if err != nil {
		return source{}, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return source{}, err
	}
	src, err := formOf(path, machine, wanted, info)
	if err != nil {
		return source{}, err
	}
	src.stamp, src.size, err = stamp(src)
	return src, err
}

// formOf recognizes the form of a driver by its characteristic files.
func formOf(path, machine, wanted string, info fs.FileInfo) (source, error) {
	if !info.IsDir() {
		return source{form: runArchive, path: path}, nil
	}
	if isFile(filepath.Join(path, manifestName)) {
		return source{form: extracted, path: path}, nil
	}
	if drivers := inImage(path, machine); len(drivers) > 0 {
		return choose(path, drivers, wanted)
	}
	if version := treeVersion(path); version != "" {
		return source{form: sourceTree, path: path, version: version}, nil
	}
	if version := rootVersion(path, machine); version != "" {
		return source{form: preparedRoot, path: path, version: version}, nil
	}
	if len(packagesIn(path, machine)) > 0 {
		return source{form: packages, path: filepath.Join(path, packageFolder), image: path}, nil
	}
	if other := otherMachine(path, machine); other != "" {
		return source{}, problem(cause.WrongArchitecture, path, "use the driver for "+machine, "has a driver for %s; this node is %s", other, machine)
	}
	return source{}, problem(cause.PayloadMissing, path, "use the path of a .run archive, of its extracted content, of the root of a driver image, or of a source tree", "has no driver")
}

// inImage returns the drivers in the root of a driver image, by the version in their names. The folder drivers has
// NVIDIA's archives, as files or extracted.
func inImage(root, machine string) map[string]source {
	prefix := filepath.Join(root, "drivers", "NVIDIA-Linux-"+machine+"-")
	names, err := filepath.Glob(prefix + "*")
	if err != nil {
		return nil
	}
	drivers := map[string]source{}
	for _, name := range names {
		src := source{path: name, image: root}
		switch version := strings.TrimSuffix(strings.TrimPrefix(name, prefix), ".run"); {
		case isFile(filepath.Join(name, manifestName)):
			src.form = extracted
			drivers[version] = src
		case strings.HasSuffix(name, ".run") && isFile(name) && drivers[version].form == "":
			src.form = runArchive
			drivers[version] = src
		}
	}
	return drivers
}

// choose returns the driver of an image. NVIDIA's driver container also takes the archive whose name has the wanted
// version, and ignores others.
func choose(image string, drivers map[string]source, wanted string) (source, error) {
	if src, found := drivers[wanted]; found {
		return src, nil
	}
	versions := slices.Sorted(maps.Keys(drivers))
	if len(versions) == 1 {
		return drivers[versions[0]], nil
	}
	why := "no version is set"
	if wanted != "" {
		why = "it does not have the version " + wanted
	}
	return source{}, problem(cause.PayloadMissing, image, "set --driver-version to a version that the image has", "has the drivers %s, and %s", strings.Join(versions, ", "), why)
}

// treeVersion returns the version of a source tree: NVIDIA's tree with version.mk and the folder
// kernel-open, or only that folder, with dkms.conf.
func treeVersion(dir string) string {
	if isFile(filepath.Join(dir, "kernel-open", "Makefile")) {
		return firstMatch(filepath.Join(dir, "version.mk"), regexp.MustCompile(`(?m)^NVIDIA_VERSION\s*:?=\s*(\S+)`))
	}
	if isFile(filepath.Join(dir, "Makefile")) && isFile(filepath.Join(dir, "Kbuild")) {
		return firstMatch(filepath.Join(dir, "dkms.conf"), regexp.MustCompile(`(?m)^PACKAGE_VERSION="?([^"\s]+)`))
	}
	return ""
}

func firstMatch(path string, pattern *regexp.Regexp) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return ""
	}
	if found := pattern.FindSubmatch(data); found != nil && validVersion(string(found[1])) {
		return string(found[1])
	}
	return ""
}

// rootVersion returns the version of the driver that is installed in a root, from the name of NVML's
// library.
func rootVersion(root, machine string) string {
	for _, dir := range libraryFolders(machine) {
		names, err := filepath.Glob(filepath.Join(root, dir, "libnvidia-ml.so.*.*"))
		if err != nil {
			return ""
		}
		for _, name := range names {
			_, version, _ := strings.Cut(filepath.Base(name), ".so.")
			if validVersion(version) {
				return version
			}
		}
	}
	return ""
}

// otherMachine returns the architecture of a driver in the folder, if it is for another architecture.
func otherMachine(root, machine string) string {
	for _, other := range []string{"x86_64", "aarch64", "ppc64le"} {
		if other == machine {
			continue
		}
		if len(inImage(root, other)) > 0 || rootVersion(root, other) != "" || len(packagesIn(root, other)) > 0 {
			return other
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// skipEntry returns the result that makes a walk skip an entry.
func skipEntry(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// mountPoints returns all mount points.
func mountPoints() (map[string]bool, error) {
	mounts, err := mountinfo.Read(mountinfo.Self)
	points := map[string]bool{}
	for _, m := range mounts {
		points[m.Point] = true
	}
	return points, err
}

// stamp returns a digest of the names, sizes and times of a source, and the sum of the sizes. With it, an
// agent that restarts detects an unchanged source without reading a gigabyte. Mounts in a folder are not
// part of the driver: if the source is a container's root, they are folders of the host.
func stamp(src source) (stamp string, size int64, err error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", src.form)
	files := 0
	mounted, err := mountPoints()
	if err != nil {
		return "", 0, err
	}
	add := func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != src.path && mounted[path] {
			return skipEntry(e)
		}
		if err != nil || e.IsDir() {
			return err
		}
		if files++; files > maxFiles {
			return problem(cause.PayloadRejected, src.path, "use a folder that has only the driver", "has more than %d files", maxFiles)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		fmt.Fprintf(hash, "%q %d %d\n", strings.TrimPrefix(path, src.path), info.Size(), info.ModTime().UnixNano())
		return nil
	}
	paths := []string{src.path}
	if src.image != "" {
		for _, name := range daemonFiles() {
			found, err := filepath.Glob(filepath.Join(src.image, name))
			if err != nil {
				return "", 0, err
			}
			paths = append(paths, found...)
		}
	}
	for _, path := range paths {
		if err := filepath.WalkDir(path, add); err != nil {
			return "", 0, err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}
