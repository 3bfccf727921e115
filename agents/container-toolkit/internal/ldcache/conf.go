package ldcache

import (
	"path"
	"slices"
	"strings"
)

// Limits for reading a hostile image. A distribution has about ten files and folders.
const (
	maxConf     = 64 << 10
	maxConfs    = 256
	maxDirs     = 512
	maxIncludes = 8
	maxNames    = 1 << 16
)

// search returns the folders to search, in the order of ldconfig: the folders of ld.so.conf and of
// the files that it includes, then the folders of the system. It writes the new folders to ownConf,
// so that ldconfig also finds them.
func (u *update) search() ([]dir, error) {
	if !u.root.Has(confFile) {
		if err := u.write(confFile, []byte("include "+confDir+"/*.conf\n")); err != nil {
			return nil, err
		}
	}
	known := u.order(u.conf(ownConf))
	var added []string
	for _, f := range u.folders {
		if !slices.ContainsFunc(known, f.sameFolder) {
			added = append(added, f.path)
		}
	}
	if len(added) == 0 {
		if err := u.root.Remove(ownConf); err != nil {
			u.warn(err.Error())
		}
		return known, nil
	}
	if err := u.write(ownConf, []byte(strings.Join(added, "\n")+"\n")); err != nil {
		return nil, err
	}
	all := u.conf("")
	if !slices.Contains(all, added[0]) {
		// The ld.so.conf of the image does not include ownConf, or ownConf could not be written.
		all = append(added, all...)
	}
	return u.order(all), nil
}

// order returns the folders at the paths, followed by the folders of the system. A folder that
// appears several times is only returned once, at its first position.
func (u *update) order(paths []string) []dir {
	debian := false
	if info, err := u.root.Stat("/etc/debian_version"); err == nil {
		debian = info.Mode.IsRegular()
	}
	var out []dir
	for _, p := range append(slices.Clone(paths), u.arch.system(debian)...) {
		if d, ok := u.identify(p); ok && !slices.ContainsFunc(out, d.sameFolder) {
			out = append(out, d)
		}
	}
	return out
}

// conf returns the folders in ld.so.conf and its included files, except in the file skip.
func (u *update) conf(skip string) []string {
	c := conf{update: u, skip: skip}
	c.parse(confFile, 0)
	return c.dirs
}

// conf parses ld.so.conf and its included files.
type conf struct {
	*update
	skip  string
	files int
	dirs  []string
}

func (c *conf) parse(file string, depth int) {
	if c.files++; c.files > maxConfs || depth > maxIncludes || file == c.skip {
		return
	}
	for line := range strings.Lines(string(c.read(file, maxConf))) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "hwcap":
		case words[0] == "include":
			for _, pattern := range words[1:] {
				if !path.IsAbs(pattern) {
					pattern = path.Join(path.Dir(file), pattern)
				}
				for _, included := range c.glob(pattern) {
					c.parse(included, depth+1)
				}
			}
		default:
			if d := strings.TrimSpace(line); path.IsAbs(d) && len(c.dirs) < maxDirs {
				c.dirs = append(c.dirs, path.Clean(d))
			}
		}
	}
}

// glob returns the files that match a pattern, sorted.
func (u *update) glob(pattern string) []string {
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, `*?[\`) {
				next = append(next, path.Join(dir, part))
				continue
			}
			for _, name := range u.names(dir) {
				hidden := strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".")
				if ok, err := path.Match(part, name); ok && err == nil && !hidden {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		found = next[:min(len(next), maxConfs)]
	}
	return found
}

// names returns the names in a folder, sorted. It returns nothing after maxNames names were read in
// total, which is more than any distribution has.
func (u *update) names(name string) []string {
	if u.named > maxNames {
		return nil
	}
	d, err := u.root.Dir(name)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Names(maxNames)
	if err != nil {
		u.warn(name + " in the container: " + err.Error())
		return nil
	}
	u.named += len(names)
	return names
}
