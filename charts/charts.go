// Package charts holds the Helm charts of the agents, so that a program installs
// the same charts as a person does from the folder.
package charts

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"
	"sigs.k8s.io/yaml"
)

//go:embed */.helmignore */Chart.yaml */values.yaml */values.schema.json */README.md all:*/templates */crds all:common
var embedded embed.FS

// Load returns the chart in the folder with this name, as Helm loads it from
// disk: symbolic links are followed, and what .helmignore names is left out.
func Load(name string) (*chart.Chart, error) {
	return load(embedded, name)
}

// Names returns the names of the charts that the chart outrigger consists of: those of agents, of the
// orchestrator and of validations.
func Names() ([]string, error) {
	files, err := fs.Glob(embedded, "*/Chart.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the charts of this program: %w", err)
	}
	var names []string
	for _, file := range files {
		if name := path.Dir(file); name != umbrella {
			names = append(names, name)
		}
	}
	return names, nil
}

// load returns a chart of files, which hold no symbolic links: Go cannot embed
// those. A chart has two kinds of them: templates/common is the folder common, and, for
// each dependency in Chart.yaml, what charts/NAME has is that of the chart NAME.
func load(files fs.FS, name string) (*chart.Chart, error) {
	rules, err := ignored(files, name)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	r := reader{files: files, rules: rules, read: map[string][]byte{}}
	if err := r.chart(name, "."); err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	var buffered []*archive.BufferedFile
	for _, file := range slices.Sorted(maps.Keys(r.read)) {
		buffered = append(buffered, &archive.BufferedFile{Name: file, Data: r.read[file]})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	return c, nil
}

// ignored returns the rules of a chart's .helmignore, and Helm's own.
func ignored(files fs.FS, name string) (*ignore.Rules, error) {
	rules := ignore.Empty()
	f, err := files.Open(path.Join(name, ignore.HelmIgnore))
	if err == nil {
		rules, err = ignore.Parse(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", ignore.HelmIgnore, err)
	}
	rules.AddDefaults()
	return rules, nil
}

// reader reads the files of a chart.
type reader struct {
	files fs.FS
	// rules are those of the chart that is loaded. As in Helm, those of its
	// dependencies play no part.
	rules *ignore.Rules
	// read holds the contents by their path in the chart.
	read map[string][]byte
}

// chart reads the chart in a folder, and what its links lead to, as the path at
// of the chart that is loaded.
func (r *reader) chart(folder, at string) error {
	if err := r.folder(folder, at); err != nil {
		return err
	}
	if err := r.folder("common", path.Join(at, "templates", "common")); err != nil {
		return err
	}
	var metadata chart.Metadata
	if err := yaml.Unmarshal(r.read[path.Join(at, "Chart.yaml")], &metadata); err != nil {
		return fmt.Errorf("read %s/Chart.yaml: %w", folder, err)
	}
	for _, dependency := range metadata.Dependencies {
		if err := r.chart(dependency.Name, path.Join(at, "charts", dependency.Name)); err != nil {
			return err
		}
	}
	return nil
}

// folder reads all files of a folder, as the path at of the chart.
func (r *reader) folder(folder, at string) error {
	return fs.WalkDir(r.files, folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := path.Join(at, file[len(folder):])
		switch {
		case name != "." && r.rules.Ignore(name, info):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		r.read[name], err = fs.ReadFile(r.files, file)
		return err
	})
}
