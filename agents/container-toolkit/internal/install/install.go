package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Config describes an installation.
type Config struct {
	// Dir is the folder of the installation as this process sees it.
	Dir Dir
	// HostDir is the same folder where it is no mount point, so that it can be removed.
	// Default: Dir.
	HostDir string
	// Source is the folder with the tools to install.
	Source string
	// Config is the config file of the tools.
	Config []byte
	Log    *slog.Logger
}

// Installer installs the tools. Only one goroutine at a time may use it, and only one
// process may install to a folder.
type Installer struct {
	cfg Config
	// content is nil before the source was read.
	content *Content
	// seen are the files of the installed version as they were after the last Install.
	seen map[string]stamp
	// due is when the next version is to be removed, zero for none.
	due time.Time
	// before is that of applier.
	before func(change string) error
}

// New returns an Installer. It does no I/O.
func New(cfg Config) *Installer { return &Installer{cfg: cfg} }

// Tools returns the folder through which the host refers to the tools.
func (i *Installer) Tools() string { return i.cfg.Dir.Tools() }

// Install makes the tools on the host those of the source: the whole version, or single
// files of it that were removed or changed. It writes nothing if everything is as it should
// be. It returns when to call it again, to remove versions that are no longer in use, 0 if
// there are none.
func (i *Installer) Install() (again time.Duration, err error) {
	now := time.Now()
	if !i.Outdated() && (i.due.IsZero() || now.Before(i.due)) {
		return i.untilDue(now), nil
	}
	i.seen = nil
	if i.content == nil {
		c, err := Read(i.cfg.Source, i.cfg.Config)
		if err != nil {
			return 0, err
		}
		i.content = &c
	}
	for range attempts {
		// Before the content is read, so that a change in between shows next time.
		seen := i.stamps()
		s, err := i.cfg.Dir.observe(*i.content, now)
		if err != nil {
			return 0, err
		}
		steps := plan(i.content.id, s)
		if len(steps) == 0 {
			i.seen, i.due = seen, time.Time{}
			if in := due(i.content.id, s); in > 0 {
				i.due = now.Add(in)
			}
			return i.untilDue(now), nil
		}
		if err := i.apply(steps, now); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("install the tools: another program changes %s at the same time", i.cfg.Dir)
}

// attempts is how often Install tries to find everything as it should be.
const attempts = 5

func (i *Installer) apply(steps []step, now time.Time) error {
	a := applier{dir: i.cfg.Dir, content: *i.content, now: now, before: i.before}
	for _, step := range steps {
		if err := a.apply(step); err != nil {
			return err
		}
	}
	i.report(steps)
	return nil
}

func (i *Installer) untilDue(now time.Time) time.Duration {
	if i.due.IsZero() {
		return 0
	}
	return i.due.Sub(now)
}

func (i *Installer) report(steps []step) {
	for _, s := range steps {
		switch s.action {
		case flip:
			i.cfg.Log.Info("tools installed", "folder", i.Tools(), "version", s.name)
		case mend:
			i.cfg.Log.Warn("installed file was removed or changed, replaced it", "file", s.name)
		case setAside:
			i.cfg.Log.Info("kept what another program installed, to put it back on removal", "folder", i.Tools())
		case retire:
			i.cfg.Log.Info("old version of the tools removed", "version", s.name)
		default:
		}
	}
}

// Outdated reports whether a file of the installation has changed since Install, by the
// properties that the kernel keeps of it.
func (i *Installer) Outdated() bool {
	if i.seen == nil {
		return true
	}
	for path, was := range i.seen {
		if now, ok := stampOf(path); !ok || now != was {
			return true
		}
	}
	return false
}

// Watched returns the files and folders in which a change makes the installation outdated.
func (i *Installer) Watched() []string {
	paths := []string{string(i.cfg.Dir), i.cfg.Dir.hidden()}
	if i.content != nil {
		version := i.cfg.Dir.hidden(i.content.id)
		paths = append(paths, version, filepath.Dir(filepath.Join(version, ConfigFile)))
	}
	for path := range i.seen {
		paths = append(paths, path)
	}
	return paths
}

// Remove takes back what Install did, and puts back what was there before.
func (i *Installer) Remove() error {
	d := i.cfg.Dir
	replaced := d.hidden(replacedName)
	_, made := os.Lstat(d.hidden(madeName))
	ours := leadsTo(d.Tools()) != ""
	var err error
	switch _, missing := os.Lstat(replaced); {
	case !ours:
		// Another program has installed something there since.
	case missing == nil:
		if err = os.Remove(d.Tools()); err == nil {
			err = os.Rename(replaced, d.Tools())
		}
	default:
		err = os.Remove(d.Tools())
	}
	if err == nil {
		err = os.RemoveAll(d.hidden())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the tools: %w", err)
	}
	if made == nil {
		// It stays if it is a mount point of the host, or if there is something in it.
		_ = unix.Rmdir(cmp.Or(i.cfg.HostDir, string(d)))
	}
	if ours {
		i.cfg.Log.Info("tools removed", "folder", d.Tools())
	}
	i.seen = nil
	return nil
}

// stamp is what the kernel keeps of a file. Its time of change cannot be set.
type stamp struct {
	ino     uint64
	size    int64
	mode    uint32
	changed syscall.Timespec
}

// stamps returns the stamps of the link and of all files of the version.
func (i *Installer) stamps() map[string]stamp {
	out := map[string]stamp{}
	paths := []string{i.Tools()}
	for _, f := range i.content.files {
		paths = append(paths, i.cfg.Dir.hidden(i.content.id, f.name))
	}
	for _, path := range paths {
		// One that has gone by now gets a stamp that matches nothing.
		out[path], _ = stampOf(path)
	}
	return out
}

func stampOf(path string) (stamp, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	return stamp{ino: st.Ino, size: st.Size, mode: st.Mode, changed: st.Ctim}, true
}
