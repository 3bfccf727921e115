package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// host is the host's file system, as this process sees it.
type host struct {
	// root is the folder where this process sees the host's /.
	root string
	// proc is the folder where this process sees the host's /proc.
	proc string
	// outside places temporary files in the parent of the file's folder, because CRI-O reads
	// every file in the folder of its drop-ins.
	outside bool
}

// path converts a path on the host to a path of this process. It follows all links as the host
// does.
func (h host) path(p string) (string, error) {
	out, err := securejoin.SecureJoin(h.root, p)
	if err != nil {
		return "", fmt.Errorf("find %s below %s: %w", p, h.root, err)
	}
	return out, nil
}

// read returns the content of a file, or nil if it does not exist.
func (h host) read(p string) ([]byte, error) {
	real, err := h.path(p)
	if err != nil {
		return nil, err
	}
	data, err := hostfs.ReadFile(real, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// glob returns the paths on the host that match a pattern, sorted.
func (h host) glob(pattern string) ([]string, error) {
	dir, err := h.path(filepath.Dir(pattern))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		ok, err := filepath.Match(filepath.Base(pattern), e.Name())
		if err != nil {
			return nil, fmt.Errorf("match %s: %w", pattern, err)
		}
		if ok {
			out = append(out, filepath.Join(filepath.Dir(pattern), e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// walk returns the paths on the host of all files in a folder and its subfolders, sorted by
// name.
func (h host) walk(folder string) ([]string, error) {
	dir, err := h.path(folder)
	if err != nil {
		return nil, err
	}
	var out []string
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		out = append(out, filepath.Join(folder, rel))
		return err
	})
	return out, err
}

// errEdited means that another program or user edited a file during a change. The edit stays.
var errEdited = errors.New("another program or user edits it at the moment, and the edit stays: try again later")

// has returns an error unless a file has this content.
func (h host) has(p string, text []byte) error {
	now, err := h.read(p)
	if err == nil && !sameContent(now, text) {
		err = fmt.Errorf("%s: %w", p, errEdited)
	}
	return err
}

// replace replaces the content of a file atomically, and keeps its mode, owner and extended attributes. If after
// is nil, it removes the file. If the file no longer has the content before, it returns errEdited.
func (h host) replace(p string, before, after []byte) error {
	real, err := h.path(p)
	if err != nil {
		return err
	}
	if after == nil {
		if err := h.has(p, before); err != nil {
			return err
		}
		if err := os.Remove(real); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	mode := newFileMode
	info, err := os.Stat(real)
	if err == nil {
		mode = info.Mode().Perm()
	}
	r, err := hostfs.ReplaceFrom(h.staging(real), real, mode)
	if err != nil {
		return err
	}
	if info != nil {
		err = keepAttributes(r, real, info)
	}
	if err == nil {
		_, err = r.Write(after)
	}
	if err == nil {
		err = r.Sync() // the slow part of Commit
	}
	if err == nil {
		err = h.has(p, before)
	}
	if err == nil {
		err = r.Commit()
	}
	return errors.Join(err, r.Close())
}

// staging returns the folder for the temporary files of a file.
func (h host) staging(file string) string {
	dir := filepath.Dir(file)
	above := filepath.Dir(dir)
	var here, there unix.Stat_t
	if !h.outside || unix.Stat(dir, &here) != nil || unix.Stat(above, &there) != nil || here.Dev != there.Dev {
		return dir
	}
	return above
}

// keepAttributes gives a new file the owner, mode and extended attributes of another one.
func keepAttributes(r *hostfs.Replacement, from string, info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := r.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	// A change of the owner can clear bits of the mode.
	if err := unix.Fchmod(int(r.Fd()), owner.Mode&0o7777); err != nil {
		return fmt.Errorf("set the mode of %s: %w", from, err)
	}
	buf := make([]byte, 64<<10)
	n, err := unix.Listxattr(from, buf)
	if err != nil {
		return nil // this file system has no extended attributes
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10)
		if n, err := unix.Getxattr(from, name, value); err == nil && name != "" && name != "security.ima" && name != "security.evm" {
			if err := unix.Fsetxattr(int(r.Fd()), name, value[:n], 0); err != nil {
				return fmt.Errorf("keep the attribute %s of %s: %w", name, from, err)
			}
		}
	}
	return nil
}

// missingFolder returns the topmost folder above a file that does not exist, or "".
func (h host) missingFolder(p string) (string, error) {
	top := ""
	for dir := filepath.Dir(p); dir != "/"; dir = filepath.Dir(dir) {
		real, err := h.path(dir)
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(real); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		top = dir
	}
	return top, nil
}

// removeFolders removes empty folders, from the folder of a file up to top.
func (h host) removeFolders(p, top string) {
	for dir := filepath.Dir(p); top != "" && strings.HasPrefix(dir+"/", top+"/"); dir = filepath.Dir(dir) {
		real, err := h.path(dir)
		if err != nil || os.Remove(real) != nil {
			return // the file is in use
		}
	}
}

// runLimit limits the run time of an engine's program. The program may wait for a busy disk or processor.
const runLimit = time.Minute

// run runs a program of the host in the host's root, and returns its output.
func (h host) run(ctx context.Context, program, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Args[0] = name
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if h.root != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: h.root}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w%s", program, strings.Join(args, " "), err, lastLine(stderr.String()))
	}
	return string(out), nil
}

// lastLine returns the last line of an error output, to append to an error.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + last
	}
	return ""
}

// now returns the current moment.
func (h host) now() moment {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return moment{}
	}
	return moment{Boot: h.boot(), Nanoseconds: t.Nano()}
}

// boot returns the ID of the current boot.
func (h host) boot() string {
	data, _ := os.ReadFile(filepath.Join(h.proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(data))
}
