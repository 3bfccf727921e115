package configfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/hostfs"
)

// File locates the config file: a given file, one of the files in a folder, or none.
type File struct {
	// Path is --config-file.
	Path string
	// Dir is --config-dir. The Node's label selects a file in this folder.
	Dir string
	// label is the key of the label.
	label   string
	chooser chooser
}

// Flags returns the flags that locate the config file. Each flag has its environment variables. With a
// prefix, it also has the first variable with this prefix. The aliases are the names in
// NVIDIA's device plugin and its config manager.
func (f *File) Flags(prefix string) []cli.Flag {
	env := func(names ...string) []string { return Prefixed(prefix, names) }
	return cmdline.Under(category.Config,
		&cli.PathFlag{
			Name: "config-file", Aliases: []string{"config"}, EnvVars: env("CONFIG_FILE"), Destination: &f.Path,
			Usage: "config `FILE` in YAML or JSON; flags and environment variables take precedence over it",
		},
		&cli.PathFlag{
			Name: "config-dir", Aliases: []string{"config-file-srcdir"}, EnvVars: env("CONFIG_DIR", "CONFIG_FILE_SRCDIR"), Destination: &f.Dir,
			Usage: "`FOLDER` of config files; the label --node-label of the Node selects one of them",
		},
		&cli.StringFlag{
			Name: "default-config", EnvVars: env("DEFAULT_CONFIG"), Destination: &f.chooser.preferred,
			Usage: "`NAME` of the file in --config-dir for a Node without the label",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "fallback-strategies", EnvVars: env("FALLBACK_STRATEGIES"),
			Usage: "`STRATEGIES` to try in order if neither the label nor --default-config selects a file: named (the file default), single (the only file), empty (no file)",
		}, &f.chooser.fallbacks),
		&cli.StringFlag{
			Name: "node-label", EnvVars: env("NODE_LABEL"), Value: "nvidia.com/device-plugin.config", Destination: &f.label,
			Usage: "`KEY` of the label that selects a file in --config-dir",
		},
	)
}

// Prefixed returns the environment variables of a flag, preceded by the first one with
// the prefix. It adds nothing if prefix is empty or the first one already has it.
func Prefixed(prefix string, names []string) []string {
	if prefix == "" || strings.HasPrefix(names[0], prefix) {
		return names
	}
	return append([]string{prefix + names[0]}, names...)
}

// check rejects flags that exclude each other.
func (f File) check() error {
	if f.Path != "" && f.Dir != "" {
		return cmdline.Usagef("flags --config-file and --config-dir are both set: remove one of them")
	}
	return f.chooser.check()
}

// All returns the paths of all files that can be selected. It returns an error if no file can be.
func (f File) All() ([]string, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.Path != "" {
		return []string{f.Path}, nil
	}
	if f.Dir == "" {
		return nil, cmdline.Usagef("flag --config: needs a value: the config file; or set --config-dir to a folder of config files")
	}
	names, err := f.names()
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

// read returns the path and the content of the config file for a node with this value of the label.
// The value is empty for a node without the label. Both results are empty if there is no config
// file.
func (f File) read(label string) (path string, data []byte, err error) {
	path = f.Path
	if f.Dir != "" {
		names, err := f.names()
		if err != nil {
			return "", nil, err
		}
		name, err := f.chooser.choose(label, names)
		if err != nil {
			return "", nil, fmt.Errorf("flag --config-dir: %s: %w", f.Dir, err)
		}
		if name != "" {
			path = filepath.Join(f.Dir, name)
		}
	}
	if path == "" {
		return "", nil, nil
	}
	if data, err = Read(path); err != nil {
		return path, nil, fmt.Errorf("flag --%s: %w", f.flag(), err)
	}
	return path, data, nil
}

// flag returns the name of the flag that locates the config file.
func (f File) flag() string {
	if f.Dir != "" {
		return "config-dir"
	}
	return "config-file"
}

// maxConfig is the largest size of a ConfigMap.
const maxConfig = 1 << 20

// Read returns the content of one config file. It rejects a file larger than 1 MiB, the largest
// size of a ConfigMap. It also rejects anything but a regular file, such as a named pipe.
func Read(path string) ([]byte, error) { return hostfs.ReadFile(path, maxConfig) }

// ReadInput returns the content of a config file that a command reads once, as hostfs.ReadInput does.
func ReadInput(path string) ([]byte, error) { return hostfs.ReadInput(path, os.Stdin, maxConfig) }

// names returns the names of the regular files in the folder, without hidden files. The kubelet
// uses hidden files to replace the content of a mounted ConfigMap, and programs that write files
// atomically may create them.
func (f File) names() ([]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("flag --config-dir: %w", err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && mayBeFile(filepath.Join(f.Dir, e.Name())) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// mayBeFile reports whether a regular file exists at path, or a link without a target. The agent
// reports such a link when it reads the file.
func mayBeFile(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// folder returns the folder to watch, or "" without a config file. The agent watches the folder
// instead of the file, because a mounted file is replaced and not written.
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
