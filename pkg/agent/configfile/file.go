package configfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
)

// File says which file is the config file: one, one of a folder, or none.
type File struct {
	// Path is --config-file.
	Path string
	// Dir is the folder of which the node's label chooses a file.
	Dir string
	// Label is the key of the label.
	Label   string
	chooser config.Chooser
}

// FileOf returns what the flags of Flags say.
func FileOf(c *cli.Context) (File, error) {
	f := File{
		Path: c.Path("config-file"),
		Dir:  c.Path("config-dir"),
		chooser: config.Chooser{
			Default:   c.String("default-config"),
			Fallbacks: agent.SetTexts[config.Fallback](c, "fallback-strategies"),
		},
		Label: c.String("node-label"),
	}
	if f.Path != "" && f.Dir != "" {
		return File{}, agent.Usagef("flags --config-file and --config-dir are both set: one file is in force, remove one of them")
	}
	if err := f.chooser.Check(); err != nil {
		return File{}, agent.Usagef("%s", err)
	}
	return f, nil
}

// read returns the path and the content of the config file of a node on which
// the label has the value, empty for none. Without a config file both are
// empty.
func (f File) read(label string) (path string, data []byte, err error) {
	path = f.Path
	if f.Dir != "" {
		files, err := f.files()
		if err != nil {
			return "", nil, err
		}
		name, err := f.chooser.Choose(label, files)
		if err != nil {
			return "", nil, fmt.Errorf("look into %s: %w", f.Dir, err)
		}
		if name != "" {
			path = filepath.Join(f.Dir, name)
		}
	}
	if path == "" {
		return "", nil, nil
	}
	data, err = Read(path)
	return path, data, err
}

// maxConfig is what a ConfigMap can hold.
const maxConfig = 1 << 20

// Read returns the content of one config file.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read config file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read config file: %w", err)
	}
	if len(data) > maxConfig {
		return nil, fmt.Errorf("read config file %s: it is larger than 1 MiB", path)
	}
	return data, nil
}

// All returns the paths of the files that can be in force. None is an error.
func (f File) All() ([]string, error) {
	if f.Path != "" {
		return []string{f.Path}, nil
	}
	if f.Dir == "" {
		return nil, agent.Usagef("flag --config: needs a value: the config file; or set --config-dir to a folder of them")
	}
	names, err := f.files()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no file in %s", f.Dir)
	}
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = filepath.Join(f.Dir, name)
	}
	return paths, nil
}

// files returns the names of the files in the folder, without hidden ones:
// Kubernetes exchanges the content of a mounted folder by some, and a program
// that writes a file whole may have another for a moment.
func (f File) files() ([]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("read config folder: %w", err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// folder returns the folder whose changes may be changes of the config: that of
// the file, because a mounted one is exchanged and not written to.
func (f File) folder() string {
	switch {
	case f.Dir != "":
		return f.Dir
	case f.Path != "":
		return filepath.Dir(f.Path)
	default:
		return ""
	}
}
