package driverroot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// The layout of ld.so.cache in glibc's dl-cache.h: an optional part in the old
// format, then the part in the new format, which is read here.
const (
	oldMagic      = "ld.so-1.7.0\x00"
	oldHeaderSize = 16
	oldEntrySize  = 12
	newMagic      = "glibc-ld.so.cache1.1"
	newHeaderSize = 48
	newEntrySize  = 24
	archMask      = 0xff00
)

// Bounds of what is read. The cache of a whole distribution has some 100 KiB.
const (
	maxCache = 16 << 20
	maxPath  = 4096
)

// cacheDirs returns the folders where the root's ld.so.cache has the driver's
// libraries. It returns nothing for a cache that is absent or damaged.
func (r *Root) cacheDirs() []string {
	e, err := r.locate("/etc/ld.so.cache")
	if err != nil || !e.info.Mode().IsRegular() {
		return nil
	}
	if e.info.Size() > maxCache {
		return nil
	}
	data, err := os.ReadFile(r.open(e))
	if err != nil {
		return nil
	}
	libs, err := parseCache(data, thisArch().cacheFlag)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, p := range libs {
		lib := string(p)
		base := path.Base(lib)
		if !strings.HasPrefix(base, "libcuda.so") && !strings.HasPrefix(base, "libnvidia-ml.so") {
			continue
		}
		if d := path.Dir(lib); path.IsAbs(d) && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// parseCache returns the paths of the libraries of one architecture. They are
// slices of data.
func parseCache(data []byte, archFlag int32) ([][]byte, error) {
	if bytes.HasPrefix(data, []byte(oldMagic)) {
		if len(data) < oldHeaderSize {
			return nil, errors.New("parse ld.so.cache: header is cut short")
		}
		n := uint64(binary.NativeEndian.Uint32(data[12:]))
		skip := (oldHeaderSize + n*oldEntrySize + 7) &^ 7
		if skip > uint64(len(data)) {
			return nil, fmt.Errorf("parse ld.so.cache: %d old entries in %d bytes", n, len(data))
		}
		data = data[skip:]
	}
	if !bytes.HasPrefix(data, []byte(newMagic)) || len(data) < newHeaderSize {
		return nil, errors.New("parse ld.so.cache: unknown format")
	}
	n := uint64(binary.NativeEndian.Uint32(data[20:]))
	if newHeaderSize+n*newEntrySize > uint64(len(data)) {
		return nil, fmt.Errorf("parse ld.so.cache: %d entries in %d bytes", n, len(data))
	}
	var out [][]byte
	for i := range n {
		entry := data[newHeaderSize+i*newEntrySize:]
		if int32(binary.NativeEndian.Uint32(entry))&archMask != archFlag {
			continue
		}
		value := binary.NativeEndian.Uint32(entry[8:])
		if uint64(value) >= uint64(len(data)) {
			return nil, fmt.Errorf("parse ld.so.cache: entry %d points behind the end", i)
		}
		p, _, ok := bytes.Cut(data[value:min(len(data), int(value)+maxPath)], []byte{0})
		if !ok {
			return nil, fmt.Errorf("parse ld.so.cache: entry %d has no end", i)
		}
		out = append(out, p)
	}
	return out, nil
}
