package payload

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/decompress"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// packageFolder is the repository of Debian packages in NVIDIA's images of precompiled drivers for Ubuntu, which have no
// archive and no installed driver.
const packageFolder = "usr/local/repos"

// packageName matches the file of a Debian package: its name, version and architecture.
func packageName() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9][a-z0-9.+-]*)_[^_]+_(all|amd64|arm64)\.deb$`)
}

// packagesIn returns the packages of the driver in an image without an installed driver. Later packages replace files of
// earlier packages.
func packagesIn(image, machine string) []string {
	found := packageFiles(image, machine, ofDriver)
	if !slices.ContainsFunc(found, func(file string) bool { return strings.HasPrefix(filepath.Base(file), "libnvidia-compute-") }) {
		return nil
	}
	// The signed modules of linux-modules-nvidia-* replace the modules of linux-objects-nvidia-*.
	slices.SortStableFunc(found, func(a, b string) int {
		return strings.Compare(unpackOrder(a)+a, unpackOrder(b)+b)
	})
	return found
}

// packageFiles returns the files of packages in an image, by their names.
func packageFiles(image, machine string, wanted func(name string) bool) []string {
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[machine]
	var found []string
	err := filepath.WalkDir(filepath.Join(image, packageFolder), func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name := packageName().FindStringSubmatch(e.Name())
		if name != nil && (name[2] == arch || name[2] == "all") && wanted(name[1]) {
			found = append(found, file)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return found
}

func unpackOrder(file string) string {
	if strings.HasPrefix(filepath.Base(file), "linux-modules-") {
		return "2"
	}
	return "1"
}

// ofDriver reports whether a package is a part of the driver, and not one of its dependencies.
func ofDriver(name string) bool {
	switch {
	case strings.Contains(name, "container"), strings.HasPrefix(name, "nvidia-settings"):
		return false
	case slices.Contains([]string{"nvlsm", "libibumad3", "libnvsdm"}, name):
		return true
	}
	return strings.Contains(name, "nvidia")
}

// fromPackages imports a driver from the Debian packages of a driver image. It needs no package manager and no network.
func (f filler) fromPackages() (record, error) {
	if err := f.skeleton(); err != nil {
		return record{}, err
	}
	for _, file := range packagesIn(f.src.image, f.machine) {
		if err := f.unpackPackage(file, ""); err != nil {
			return record{}, err
		}
	}
	if err := f.sortSources(); err != nil {
		return record{}, err
	}
	version := rootVersion(filepath.Join(f.root.Name(), rootName), f.machine)
	if version == "" {
		return record{}, problem(cause.PayloadTruncated, f.name, "use a driver image that has the packages of the driver's libraries", "has no package with the library libnvidia-ml.so")
	}
	return f.prepared(version)
}

// fromSourcePackages adds sources of Debian packages to an installed driver. NVIDIA's image for Ubuntu 26.04 has the
// proprietary sources only in packages.
func (f filler) fromSourcePackages() error {
	for _, file := range packageFiles(f.src.path, f.machine, func(name string) bool { return strings.HasPrefix(name, "nvidia-") }) {
		if err := f.unpackPackage(file, sourceName+"/"); err != nil {
			return err
		}
	}
	return f.sortSources()
}

// unpackPackage unpacks the files of a Debian package whose places begin with a prefix.
func (f filler) unpackPackage(file, prefix string) error {
	in, err := hostfs.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	data, err := packageData(bufio.NewReader(f.reader(in)))
	if err != nil {
		return problem(cause.PayloadCorrupt, file, fetchAgain, "is not a Debian package: %v", err)
	}
	plain, _, err := decompress.Reader(bufio.NewReader(data))
	if err != nil {
		return problem(cause.PayloadCorrupt, file, fetchAgain, "cannot be decompressed: %v", err)
	}
	defer plain.Close()
	name, _, _ := strings.Cut(filepath.Base(file), "_")
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return problem(cause.PayloadCorrupt, file, fetchAgain, "cannot be decompressed: %v", err)
		}
		if place, _ := placeInPackage(name, header.Name); !strings.HasPrefix(place, prefix) {
			continue
		}
		if err := f.unpack(name, header, files); err != nil {
			return err
		}
	}
}

// unpack writes an entry of a package to its place.
func (f filler) unpack(from string, h *tar.Header, content io.Reader) error {
	var wanted bool
	if h.Name, wanted = placeInPackage(from, h.Name); !wanted {
		return nil
	}
	if h.Typeflag == tar.TypeLink {
		h.Linkname, _ = placeInPackage(from, h.Linkname)
	}
	return f.extract(h, content)
}

// placeInPackage returns the place of a file of a package in the store, and false for a file that is not needed.
func placeInPackage(from, name string) (string, bool) {
	clean := path.Clean(name)
	if !filepath.IsLocal(clean) {
		return name, true // extract rejects it
	}
	if modulePath().MatchString(clean) {
		return modulePlace(clean)
	}
	if folder, is := strings.CutPrefix(clean, "usr/src/nvidia"); is {
		_, file, inFolder := strings.Cut(folder, "/")
		return path.Join(sourceName, from, file), inFolder
	}
	below := strings.TrimPrefix(clean, "usr/") + "/"
	for _, other := range []string{"lib/modules/", "share/doc/", "share/man/"} {
		if strings.HasPrefix(below, other) {
			return "", false
		}
	}
	return path.Join(rootName, clean), true
}

// sortSources names the folders of sources after their flavours. It removes folders that do not have the driver's
// sources.
func (f filler) sortSources() error {
	folders, err := fs.ReadDir(f.root.FS(), sourceName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, folder := range folders {
		from := path.Join(sourceName, folder.Name())
		to := path.Join(sourceName, string(flavourOf(filepath.Join(f.root.Name(), from))))
		_, missing := f.root.Stat(path.Join(from, "nvidia"))
		switch {
		case from == to:
		case missing != nil, isDir(filepath.Join(f.root.Name(), to)):
			err = f.root.RemoveAll(from)
		default:
			err = f.root.Rename(from, to)
		}
		if err != nil {
			return f.explain(err)
		}
	}
	return nil
}

// packageData returns a reader of the compressed archive with the files of a Debian package. The package has the format
// of ar: each member has a header of 60 characters.
func packageData(r *bufio.Reader) (io.Reader, error) {
	const magic, headerSize = "!<arch>\n", 60
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r, head); err != nil || string(head) != magic {
		return nil, errors.New("it does not have the format of ar")
	}
	header := make([]byte, headerSize)
	for {
		if _, err := io.ReadFull(r, header); err != nil {
			return nil, fmt.Errorf("it has no data.tar: %w", err)
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(header[48:58])), 10, 64)
		if err != nil || size < 0 {
			return nil, fmt.Errorf("a member has the size %q", header[48:58])
		}
		if strings.HasPrefix(string(header), "data.tar") {
			return io.LimitReader(r, size), nil
		}
		// Members begin at even positions.
		if _, err := io.CopyN(io.Discard, r, size+size%2); err != nil {
			return nil, fmt.Errorf("it has no data.tar: %w", err)
		}
	}
}
