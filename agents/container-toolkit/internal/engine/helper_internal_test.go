package engine

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// node is a host in a temporary folder, on which no engine runs.
type node struct {
	*testing.T
	root string
	// version is that of the engine; zero if it is not known.
	version version
}

func newNode(t *testing.T) node {
	n := node{T: t, root: t.TempDir()}
	for _, dir := range []string{"proc", "var/lib"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(n.root, dir), 0o755))
	}
	return n
}

// put writes a file of the host.
func (n node) put(path, text string) {
	n.Helper()
	real := filepath.Join(n.root, path)
	assert.NilError(n, os.MkdirAll(filepath.Dir(real), 0o755))
	assert.NilError(n, os.WriteFile(real, []byte(text), 0o600))
}

// get returns a file of the host.
func (n node) get(path string) string {
	n.Helper()
	data, err := os.ReadFile(filepath.Join(n.root, path))
	assert.NilError(n, err)
	return string(data)
}

// config returns the config for an engine of the host.
func (n node) config(engine Name) Config {
	return Config{
		Engine: engine, HostRoot: n.root, ProcRoot: filepath.Join(n.root, "proc"),
		RuntimePath: "/usr/local/nvidia/toolkit/nvidia-container-runtime", Modes: true,
	}
}

func (n node) keeper(c Config) *Keeper {
	n.Helper()
	k, err := New(c, slog.New(slog.DiscardHandler))
	assert.NilError(n, err)
	k.version = n.version
	return k
}

// snapshot describes everything on the host: names, modes, owners and contents.
func (n node) snapshot() string {
	n.Helper()
	var b strings.Builder
	err := filepath.WalkDir(n.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		rel, _ := filepath.Rel(n.root, path)
		fmt.Fprintf(&b, "%s %v %d:%d", rel, info.Mode(), stat.Uid, stat.Gid)
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteByte('\n')
		return nil
	})
	assert.NilError(n, err)
	return b.String()
}

// writes describes the host so that each write of a file shows, also of the same content.
func (n node) writes() string {
	n.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(n.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Sys().(*syscall.Stat_t).Ino, info.ModTime())
		return nil
	})
	assert.NilError(n, err)
	return b.String()
}

func (n node) apply(c Config) Plan {
	n.Helper()
	p, err := n.keeper(c).Apply(context.Background())
	assert.NilError(n, err)
	return p
}

func (n node) undo(c Config) Plan {
	n.Helper()
	p, err := n.keeper(c).Undo(context.Background())
	assert.NilError(n, err)
	return p
}
