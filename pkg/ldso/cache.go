// Package ldso reads and writes what the dynamic loader of glibc reads: its cache
// /etc/ld.so.cache, and the name in a library under which programs ask for it. It does
// no I/O of its own; what it reads may be hostile.
package ldso

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
)

// The layout of ld.so.cache in glibc's dl-cache.h: an optional part in the old format,
// then the part in the new format, which is the only one that is read and written here.
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

// Bounds of what is read. The cache of a whole distribution has some 100 KiB.
const (
	MaxCache   = 16 << 20
	maxEntries = 1 << 17
	maxPath    = 4096
	maxHwcaps  = 64
)

// extension marks the hwcap of an entry that is in a folder of glibc-hwcaps. Its lower
// half is the index of the folder, then come ten bits with the level of the processor.
const (
	extension = 1 << 62
	levelMask = 0x3ff << 32
)

// Entry is one library of the cache.
type Entry struct {
	// Name is the name that programs ask for, which is the library's SONAME.
	Name string
	// Path is where the loader opens the library.
	Path string
	// Flags has the architecture; see Library.Flags.
	Flags int32
	// OSVersion is the kernel that the library needs, for loaders before glibc 2.36.
	OSVersion uint32
	// Hwcap is what the processor must have. For an entry with a Folder, it is the level.
	Hwcap uint64
	// Folder is the folder below glibc-hwcaps that the library is in, such as
	// x86-64-v3; "" for most libraries.
	Folder string
}

// Compare orders names as the loader does, which searches the cache by halves: numbers by
// their value, so that libx.so.10 comes after libx.so.9.
func Compare(a, b string) int {
	for a != "" {
		switch {
		case isDigit(a) && isDigit(b):
			var x, y int32
			x, a = leadingNumber(a)
			y, b = leadingNumber(b)
			if x != y {
				// As in C, also where a number is too large.
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

// firstChar returns the first char of a string of C, where it has a sign on x86.
func firstChar(s string) int {
	switch {
	case s == "":
		return 0
	case runtime.GOARCH == "amd64":
		return int(int8(s[0]))
	}
	return int(s[0])
}

// sortEntries sorts entries as the loader expects them. Of equal ones, the first is used.
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
