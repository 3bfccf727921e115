package ldcache

import (
	"slices"
	"strings"
)

// muslDirs returns the folders that musl's loader searches if it has no path file.
func muslDirs() []string { return []string{"/lib", "/usr/local/lib", "/usr/lib"} }

// musl adds the folders to the path file of musl's loader, and creates the links in the folders.
// musl has no cache.
func (u *update) musl() error {
	for _, d := range u.folders {
		u.scan(d, nil)
	}
	clear(u.searched)
	old := string(u.read(u.arch.muslPath, maxConf))
	listed := strings.FieldsFunc(old, func(r rune) bool { return r == ':' || r == '\n' })
	lines := strings.TrimRight(old, "\n")
	if len(listed) == 0 {
		listed = muslDirs()
		lines = strings.Join(listed, "\n")
	}
	before := len(listed)
	listed = slices.Clone(listed)
	for _, d := range u.folders {
		if !slices.Contains(listed, d.path) {
			listed = append(listed, d.path)
			lines += "\n" + d.path
		}
	}
	if len(listed) == before {
		return nil
	}
	return u.write(u.arch.muslPath, []byte(lines+"\n"))
}
