package charts_test

import (
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// TestAPackageRendersAsItsFolder packages each chart as "helm package" does, and installs both.
func TestAPackageRendersAsItsFolder(t *testing.T) {
	for _, name := range names(t) {
		folder, err := loader.LoadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := chartutil.Save(folder, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		packaged, err := loader.LoadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := charts.Release{Name: "a", Namespace: "b", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(nil)}
		want, err := charts.Render(folder, r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := charts.Render(packaged, r)
		if err != nil {
			t.Fatal(err)
		}
		if line, w, g := firstDifference(want, got); line > 0 {
			t.Errorf("%s: line %d differs (-folder +package):\n-%s\n+%s", name, line, w, g)
		}
	}
}
