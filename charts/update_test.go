package charts

import (
	"slices"
	"strings"
	"testing"
)

// Writers returns the tests that write files with -update, each after the tests whose files it reads.
func Writers() []string {
	return []string{
		"TestTheUmbrellaHasEveryChart",
		"TestTemplatesHaveTheDefaults",
		"TestTemplatesHaveTheValuesWithoutEffect",
		"TestTheDocumentationHasTheValuesWithoutEffect",
		"TestDashboardsAreThoseOfTheirSource",
		"TestThePolicyOfKeysHasAllKeys",
		"TestTheDefinitionHasTheValues",
		"TestChartsContainWhatTheyDependOn",
		"TestGoldens",
		"TestStaticManifests",
		"TestTheSecurityPageHasTheRightsOfTheOrchestrator",
	}
}

// CheckWriter fails a test that writes files and that Writers lacks.
func CheckWriter(t *testing.T) {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); !slices.Contains(Writers(), name) {
		t.Errorf("-update does not run %s; add it to Writers", name)
	}
}
