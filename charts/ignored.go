package charts

import (
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// IgnoredHeading is the line in the notes of the chart outrigger before the values without effect.
const IgnoredHeading = "These values have no effect, or have another default than in NVIDIA's chart:\n"

// Ignored returns a line "key: reason; fix" for each value of a release of the chart outrigger that has no
// effect, and for each value whose default in NVIDIA's chart differs, if other values rely on it. The notes of
// the chart list the same lines.
func Ignored(r Release) ([]string, error) {
	c, err := Load(umbrella)
	if err != nil {
		return nil, err
	}
	notes := c.Templates[slices.IndexFunc(c.Templates, func(f *common.File) bool { return path.Base(f.Name) == "NOTES.txt" })]
	removeObjects(c)
	c.Templates = append(c.Templates, notes)
	r.Values = without(r.Values, orchestrator)
	r.Values[orchestrator] = map[string]any{"enabled": false}
	r.checked = true
	files, err := execute(c, r)
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(files[path.Join(umbrella, notes.Name)], IgnoredHeading)
	list, _, _ = strings.Cut(list, "\n\n")
	lines := strings.Split(strings.TrimSpace(list), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" }), nil
}

// removeObjects removes the templates of a chart and of its dependencies that render something.
func removeObjects(c *chart.Chart) {
	c.Templates = slices.DeleteFunc(slices.Clone(c.Templates), func(f *common.File) bool { return !strings.HasPrefix(path.Base(f.Name), "_") })
	for _, dependency := range c.Dependencies() {
		removeObjects(dependency)
	}
}
