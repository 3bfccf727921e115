package qemu

import (
	"bytes"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

// archive returns the files and the symbolic links as a cpio archive. The kernel makes the guest's
// root file system from it. The format is "newc", see
// Documentation/driver-api/early-userspace/buffer-format.rst.
func archive(files map[string][]byte, links map[string]string) []byte {
	folders := map[string]bool{}
	for name := range joined(maps.Keys(files), maps.Keys(links)) {
		for dir := path.Dir(strings.TrimPrefix(name, "/")); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	var out bytes.Buffer
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entry(&out, dir, 0o040755, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entry(&out, strings.TrimPrefix(name, "/"), 0o100755, files[name])
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		entry(&out, strings.TrimPrefix(name, "/"), 0o120777, []byte(links[name]))
	}
	entry(&out, "TRAILER!!!", 0, nil)
	return out.Bytes()
}

// joined yields the values of all sequences.
func joined(sequences ...iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, sequence := range sequences {
			for value := range sequence {
				if !yield(value) {
					return
				}
			}
		}
	}
}

// entry writes one file, link or folder. Each part is padded to a multiple of four bytes.
func entry(out *bytes.Buffer, name string, mode fs.FileMode, data []byte) {
	pad := func() { out.Write(make([]byte, (4-out.Len()%4)%4)) }
	out.WriteString("070701")
	// inode, mode, uid, gid, links, time, size, device and its numbers, name, checksum.
	for _, field := range []int{0, int(mode), 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(out, "%08x", field)
	}
	out.WriteString(name + "\x00")
	pad()
	out.Write(data)
	pad()
}
