package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The names in the folder of an installation.
const (
	// linkName is the link through which everything refers to the tools.
	linkName = "toolkit"
	// hiddenName is the folder that has the versions, and the two names below.
	hiddenName = ".toolkit"
	// newLink is the link before it is shown.
	newLink = "link.new"
	// replacedName is what was at the path of the link before.
	replacedName = "replaced"
	// madeName is there if the folder was empty before the installation, so that Remove
	// removes it.
	madeName = "made"
	// stagePrefix begins the names of folders that become versions.
	stagePrefix = "new-"
)

// Dir is the folder of an installation, /usr/local/nvidia.
type Dir string

// Tools returns the folder through which the host refers to the tools.
func (d Dir) Tools() string { return filepath.Join(string(d), linkName) }

func (d Dir) hidden(names ...string) string {
	return filepath.Join(append([]string{string(d), hiddenName}, names...)...)
}

// observe reads the state of the disk, and all files of the desired version.
func (d Dir) observe(c Content, now time.Time) (state, error) {
	var s state
	if err := d.observeLink(&s); err != nil {
		return s, err
	}
	all, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("list the folder of the tools: %w", err)
	}
	s.empty = len(all) == 0
	entries, err := os.ReadDir(d.hidden())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("list the installed tools: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir() && isID(name):
			s.versions = append(s.versions, version{id: name, idle: idle(e, now)})
		case name == newLink && leadsTo(d.hidden(name)) == "":
			s.displaced = true
		case name == newLink || strings.HasPrefix(name, stagePrefix):
			s.leftovers = append(s.leftovers, name)
		}
		if e.Name() == c.id {
			s.damaged = c.damaged(d.hidden(c.id))
		}
	}
	return s, nil
}

// observeLink reads where the link leads.
func (d Dir) observeLink(s *state) error {
	_, err := os.Lstat(d.Tools())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the installed tools: %w", err)
	}
	s.current = leadsTo(d.Tools())
	s.foreign = s.current == ""
	return nil
}

// leadsTo returns the version to which a link of an installation leads, "" if there is
// anything else at the path.
func leadsTo(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	if parent, id := filepath.Split(target); parent == hiddenName+"/" && isID(id) {
		return id
	}
	return ""
}

// idle returns for how long the folder of a version has not changed. The time of its
// replacement is noted there.
func idle(e fs.DirEntry, now time.Time) time.Duration {
	info, err := e.Info()
	if err != nil {
		return 0
	}
	return now.Sub(info.ModTime())
}

// damaged returns the files that are not in dir as they should be.
func (c Content) damaged(dir string) []string {
	var out []string
	for _, f := range c.files {
		if !f.intact(dir) {
			out = append(out, f.name)
		}
	}
	return out
}
