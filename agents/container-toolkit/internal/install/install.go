package install

import (
	"bytes"
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
	// HostDir is a path of the same folder that is not a mount point, so that the folder can
	// be removed. Default: Dir.
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
	// content is nil until the source is read.
	content *Content
	// seen has the stamps of the installed files after the last Install.
	seen map[string]stamp
	// due is the time when the next old version must be removed; zero if there is none.
	due time.Time
	// before is applier.before.
	before func(change string) error
}

// New returns an Installer. It does no I/O.
func New(cfg Config) *Installer { return &Installer{cfg: cfg} }

// SetConfig replaces Config.Config for the next Install.
func (i *Installer) SetConfig(config []byte) {
	if !bytes.Equal(i.cfg.Config, config) {
		i.cfg.Config, i.content, i.seen = config, nil, nil
	}
}

// Tools returns the folder through which the host refers to the tools.
func (i *Installer) Tools() string { return i.cfg.Dir.Tools() }

// Install makes the tools on the host equal to the source. It installs the whole version, or
// replaces files that were removed or changed. It writes nothing if the tools are as desired.
// It returns the time until the next call, which removes versions that are no longer in use.
// The time is 0 if there are no such versions.
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
		// The stamps are read before the content, so that a change in between is detected next time.
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
	return 0, fmt.Errorf("install the tools: another program is changing %s", i.cfg.Dir)
}

// attempts is how often one Install observes the tools before it gives up.
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
			i.cfg.Log.Warn("installed file was removed or changed, installed it again", "file", s.name)
		case setAside:
			i.cfg.Log.Info("kept the files of another program, restoring them on removal", "folder", i.Tools())
		case retire:
			i.cfg.Log.Info("old version of the tools removed", "version", s.name)
		default:
		}
	}
}

// Outdated reports whether a file of the installation has changed since Install. It compares
// the inode, the size, the mode and the time of change.
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

// Watched returns the files and folders whose changes can make the installation outdated.
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

// Remove removes the installation, and restores the files that were there before.
func (i *Installer) Remove() error {
	d := i.cfg.Dir
	replaced := d.hidden(replacedName)
	_, made := os.Lstat(d.hidden(madeName))
	ours := leadsTo(d.Tools()) != ""
	var err error
	switch _, missing := os.Lstat(replaced); {
	case !ours:
		// Another program has replaced the link since.
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
		// The folder stays if it is a mount point of the host, or if it is not empty.
		_ = unix.Rmdir(cmp.Or(i.cfg.HostDir, string(d)))
	}
	if ours {
		i.cfg.Log.Info("tools removed", "folder", d.Tools())
	}
	i.seen = nil
	return nil
}

// stamp has the attributes of a file. Programs cannot set the time of change.
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
		// A missing file gets a zero stamp, which no later stamp equals.
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
