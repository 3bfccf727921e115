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
	// hiddenName is the folder of the versions. It also contains the files named below.
	hiddenName = ".toolkit"
	// newLink is the link before it gets its final name.
	newLink = "link.new"
	// replacedName is the file that was at the path of the link before.
	replacedName = "replaced"
	// madeName exists if the folder was empty before the installation. Remove then removes the
	// folder.
	madeName = "made"
	// stagePrefix begins the names of incomplete versions.
	stagePrefix = "new-"
)

// Dir is the folder of an installation, by default /usr/local/nvidia.
type Dir string

// Tools returns the folder through which the host refers to the tools.
func (d Dir) Tools() string { return filepath.Join(string(d), linkName) }

func (d Dir) hidden(names ...string) string {
	return filepath.Join(append([]string{string(d), hiddenName}, names...)...)
}

// observe returns the state of the disk. It reads all files of the desired version.
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

// observeLink reads the target of the link.
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

// leadsTo returns the version that a link of an installation points to. It returns "" if
// anything else is at the path.
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

// idle returns the time since the last change of a version's folder. The step release sets the
// time of change when the version is replaced.
func idle(e fs.DirEntry, now time.Time) time.Duration {
	info, err := e.Info()
	if err != nil {
		return 0
	}
	return now.Sub(info.ModTime())
}

// damaged returns the files in dir that are not as desired.
func (c Content) damaged(dir string) []string {
	var out []string
	for _, f := range c.files {
		if !f.intact(dir) {
			out = append(out, f.name)
		}
	}
	return out
}
