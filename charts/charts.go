// Package charts embeds the Helm charts of the agents, so that a program installs the same charts
// as a user who installs them from the folder.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

// library is the chart with the templates that all other charts share.
const library = "outrigger-common"

// Copies of charts in other charts are not embedded.
//
//go:embed */Chart.yaml */values.yaml */values.schema.json all:*/templates */crds all:library
var embedded embed.FS

// Load returns the chart in the folder with this name, as Helm loads it from
// disk, but without its README.md.
func Load(name string) (*chart.Chart, error) {
	return load(embedded, name)
}

// Names returns the names of the charts in the chart outrigger: agents, the orchestrator and
// validations.
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

// load returns a chart with the charts that it depends on.
func load(files fs.FS, name string) (*chart.Chart, error) {
	read, err := contents(files, name)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	var buffered []*archive.BufferedFile
	for _, file := range slices.Sorted(maps.Keys(read)) {
		buffered = append(buffered, &archive.BufferedFile{Name: file, Data: read[file]})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	return c, nil
}

// contents returns the files of a chart by their path in it. Its folder charts contains a copy of
// each chart that it depends on. The copies do not contain the library again, because Helm shares
// the templates of each chart with all charts that it renders together.
func contents(files fs.FS, name string) (map[string][]byte, error) {
	read, err := folder(files, name)
	if err != nil {
		return nil, err
	}
	var metadata chart.Metadata
	if err := yaml.Unmarshal(read["Chart.yaml"], &metadata); err != nil {
		return nil, fmt.Errorf("read %s/Chart.yaml: %w", name, err)
	}
	for _, dependency := range metadata.Dependencies {
		from := dependency.Name
		if from == library {
			from = path.Join("library", library)
		}
		copied, err := folder(files, from)
		if err != nil {
			return nil, err
		}
		for file, text := range copied {
			read[path.Join("charts", dependency.Name, file)] = text
		}
	}
	return read, nil
}

// folder returns the files of a folder by their path in it. It leaves out files that Helm and
// editors hide, the charts that a chart contains, and README.md, which is for people.
func folder(files fs.FS, name string) (map[string][]byte, error) {
	read := map[string][]byte{}
	err := fs.WalkDir(files, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(file[len(name):], "/")
		switch {
		case entry.IsDir() && rel == "charts":
			return fs.SkipDir
		case entry.IsDir() || rel == "README.md" || strings.HasPrefix(path.Base(rel), "."):
			return nil
		}
		read[rel], err = fs.ReadFile(files, file)
		return err
	})
	return read, err
}
