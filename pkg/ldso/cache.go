// Package ldso reads and writes files of glibc's dynamic loader: its cache /etc/ld.so.cache, and
// the names in a library under which programs ask for it. It does no file I/O itself. Its input may
// be hostile.
package ldso

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
)

// The layout of ld.so.cache in glibc's dl-cache.h: an optional part in the old format, then the
// part in the new format. This package only reads and writes the new format.
const (
	oldMagic      = "ld.so-1.7.0\x00"
	oldHeaderSize = 16
	oldEntrySize  = 12
	newMagic      = "glibc-ld.so.cache1.1"
	newHeaderSize = 48
	newEntrySize  = 24

	extensionMagic       = 0xeaa42174
	extensionHeaderSize  = 8
	extensionSectionSize = 16
	sectionGenerator     = 0
	sectionHwcaps        = 1
)

// littleEndian is the byte order in the header of the new format.
const littleEndian = 2

// Bounds of the input. The cache of a whole distribution has some 100 KiB.
const (
	MaxCache   = 16 << 20
	maxEntries = 1 << 17
	maxPath    = 4096
	maxHwcaps  = 64
)

// extension marks the hwcap of an entry that is in a folder of glibc-hwcaps. Its lower half is the
// index of the folder. The next ten bits are the level of the processor.
const (
	extension = 1 << 62
	levelMask = 0x3ff << 32
)

// Entry is one library of the cache.
type Entry struct {
	// Name is the name under which programs ask for the library, its SONAME.
	Name string
	// Path is the path of the library for the loader.
	Path string
	// Flags has the architecture (see Library.Flags).
	Flags int32
	// OSVersion is the kernel version that the library needs, for loaders before glibc 2.36.
	OSVersion uint32
	// Hwcap is the required capabilities of the processor. For an entry with a Folder, it is the
	// level of the processor.
	Hwcap uint64
	// Folder is the folder of the library below glibc-hwcaps, such as x86-64-v3; "" for most
	// libraries.
	Folder string
}

// Compare orders names as the loader does for its binary search. It compares numbers by value, so
// that libx.so.10 comes after libx.so.9.
func Compare(a, b string) int {
	for a != "" {
		switch {
		case isDigit(a) && isDigit(b):
			var x, y int32
			x, a = leadingNumber(a)
			y, b = leadingNumber(b)
			if x != y {
				// As in C, even if a number is too large.
				return cmp.Compare(x-y, 0)
			}
		case isDigit(a):
			return 1
		case isDigit(b):
			return -1
		case b == "" || a[0] != b[0]:
			return cmp.Compare(firstChar(a), firstChar(b))
		default:
			a, b = a[1:], b[1:]
		}
	}
	return cmp.Compare(0, firstChar(b))
}

func isDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func leadingNumber(s string) (int32, string) {
	var n int32
	for isDigit(s) {
		n, s = n*10+int32(s[0]-'0'), s[1:]
	}
	return n, s
}

// firstChar returns the first char of a C string. On x86, a char is signed.
func firstChar(s string) int {
	switch {
	case s == "":
		return 0
	case runtime.GOARCH == "amd64":
		return int(int8(s[0]))
	}
	return int(s[0])
}

// sortEntries sorts entries in the order that the loader expects. Of equal entries, the loader uses
// the first.
func sortEntries(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(
			Compare(b.Name, a.Name),
			cmp.Compare(b.Flags, a.Flags),
			-min(len(a.Folder), 1)+min(len(b.Folder), 1),
			strings.Compare(a.Folder, b.Folder),
			cmp.Compare(b.Hwcap, a.Hwcap),
		)
	})
}
