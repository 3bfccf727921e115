package app

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/pkg/agent"
)

// configFile says which file is the config file: one, one of a folder, or none.
type configFile struct {
	// path is --config-file.
	path string
	// dir is the folder of which the node's label chooses a file.
	dir     string
	chooser config.Chooser
	// label is the key of the label, and value what it is on this node; for dir
	// only.
	label, value string
}

func configFileOf(c *cli.Context) (configFile, error) {
	f := configFile{
		path: c.Path("config-file"),
		dir:  c.Path("config-dir"),
		chooser: config.Chooser{
			Default:   c.String("default-config"),
			Fallbacks: texts[config.Fallback](c, "fallback-strategies"),
		},
		label: c.String("node-label"),
	}
	if f.path != "" && f.dir != "" {
		return configFile{}, agent.Usagef("flags --config-file and --config-dir are both set: one file is in force, remove one of them")
	}
	if err := f.chooser.Check(); err != nil {
		return configFile{}, agent.Usagef("%s", err)
	}
	return f, nil
}

// read returns the path and the content of the config file of a node on which
// the label has the value, empty for none. Without a config file both are
// empty.
func (f configFile) read(label string) (path string, data []byte, err error) {
	path = f.path
	if f.dir != "" {
		files, err := f.files()
		if err != nil {
			return "", nil, err
		}
		name, err := f.chooser.Choose(label, files)
		if err != nil {
			return "", nil, fmt.Errorf("look into %s: %w", f.dir, err)
		}
		if name != "" {
			path = filepath.Join(f.dir, name)
		}
	}
	if path == "" {
		return "", nil, nil
	}
	data, err = readConfig(path)
	return path, data, err
}

// maxConfig is what a ConfigMap can hold.
const maxConfig = 1 << 20

func readConfig(path string) ([]byte, error) {
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

// files returns the names of the files in the folder, without hidden ones:
// Kubernetes exchanges the content of a mounted folder by some, and a program
// that writes a file whole may have another for a moment.
func (f configFile) files() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
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
