package charts

import (
	"os"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// LoadFolder is Load for the charts on disk, which are newer than the embedded charts after a test has written
// files with -update.
func LoadFolder(name string) (*chart.Chart, error) { return load(os.DirFS("."), name) }

// Composed returns the schema of the umbrella, which includes the schemas of its dependencies.
func Composed(c *chart.Chart) (map[string]any, error) {
	schema, _, err := composed(c)
	return schema, err
}

// WithoutDefinitions removes the CRDs from rendered objects. TestTheDefinitionHasTheValues compares the CRD.
func WithoutDefinitions(objects string) string {
	all := strings.SplitAfter(strings.TrimPrefix(objects, "---\n"), "\n---\n")
	rest := slices.DeleteFunc(all, func(document string) bool { return strings.Contains(document, "\nkind: CustomResourceDefinition\n") })
	return "---\n" + strings.Join(rest, "")
}
