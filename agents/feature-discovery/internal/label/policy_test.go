package label_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/pkg/pci"
)

// policies is the file with the objects that the chart renders with its defaults.
const policies = "../../../../charts/testdata/feature-discovery/defaults.golden"

// policy lists the labels that an admission policy lets an agent change.
type policy struct {
	keys     []string
	patterns []*regexp.Regexp
}

var (
	policyKeys     = regexp.MustCompile(`'((?:nvidia\.com|feature\.node\.kubernetes\.io)/[^']+)'`)
	policyPatterns = regexp.MustCompile(`k\.matches\('([^']+)'\)`)
)

// policyOf reads the policy of one of the chart's service accounts. CEL and Go use
// the same syntax for patterns, RE2.
func policyOf(t *testing.T, account string) policy {
	t.Helper()
	data, err := os.ReadFile(policies)
	assert.NilError(t, err)
	for object := range strings.SplitSeq(string(data), "\n---\n") {
		if !strings.Contains(object, "kind: ValidatingAdmissionPolicy\n") || !strings.Contains(object, ":"+account+"'") {
			continue
		}
		var p policy
		for _, found := range policyKeys.FindAllStringSubmatch(object, -1) {
			p.keys = append(p.keys, found[1])
		}
		for _, found := range policyPatterns.FindAllStringSubmatch(object, -1) {
			p.patterns = append(p.patterns, regexp.MustCompile(found[1]))
		}
		return p
	}
	t.Fatalf("%s has no policy for %s", policies, account)
	return policy{}
}

func (p policy) admits(key string) bool {
	return slices.Contains(p.keys, key) || slices.ContainsFunc(p.patterns, func(r *regexp.Regexp) bool { return r.MatchString(key) })
}

// TestTheAdmissionPolicyKnowsTheLabels compares the chart with this package: a label
// that the policy lacks cannot be written, and an additional one is an unneeded
// permission.
func TestTheAdmissionPolicyKnowsTheLabels(t *testing.T) {
	p := policyOf(t, "outrigger-feature-discovery")
	names := map[string]bool{"config": true, "config.state": true, "present": true, "deploy.driver": true, "product-count": true, "": true}
	for _, key := range p.keys {
		names[strings.TrimPrefix(key, "nvidia.com/")] = true
		_, last, _ := strings.Cut(key, ".")
		names[last] = true
	}
	for _, key := range goldenKeys(t) {
		if !p.admits(key) {
			t.Errorf("the policy rejects %s: add it to labels.tsv, run 'go generate ./internal/label', and 'go test . -update' in charts", key)
		}
		for name := strings.TrimPrefix(key, "nvidia.com/"); name != ""; {
			names[name] = true
			_, name, _ = strings.Cut(name, ".")
		}
	}
	admitted := 0
	for _, prefix := range []string{
		"nvidia.com/", "nvidia.com/gpu.", "nvidia.com/mig.", "nvidia.com/gpu.product-NVIDIA-L4.", "nvidia.com/gpu.product-A.B.", "nvidia.com/gpu.product-.",
		"nvidia.com/mig-1g.5gb.", "nvidia.com/mig-1g.10gb.me.", "nvidia.com/mig-1g.10gb.me.all.", "nvidia.com/mig-1g.24gb.gfx.", "nvidia.com/mig-2g.24gb-me.",
		"nvidia.com/mig-1c.3g.20gb.", "nvidia.com/mig-0g.5gb.", "nvidia.com/mig-1g.5gb+me.", "nvidia.com/mig-1g.", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-",
		"nvidia.com/mig-1g.5gb.you.", "nvidia.com/xmig-1g.5gb.", "nvidia_com/gpu.", "example.org/gpu.", "x.nvidia.com/gpu.",
	} {
		for name := range names {
			key := prefix + name
			if got, want := p.admits(key), own(key); got != want {
				t.Errorf("policy admits %s: %v, own: %v", key, got, want)
			} else if want {
				admitted++
			}
		}
	}
	if admitted < 120 {
		t.Errorf("only %d keys are admitted and own: too few for this test to prove anything", admitted)
	}
}

func TestTheAdmissionPolicyKnowsTheLabelsOfPresence(t *testing.T) {
	p := policyOf(t, "outrigger-feature-discovery-presence")
	all := label.Presence(
		[]pci.Device{{BusID: "0000:17:00.0", Vendor: 0x10de, Class: 0x030200}},
		machine.System{Kernel: "6.1.0-30-amd64", ID: "fedora", VersionID: "42.1", OSTreeVersion: "42.20260101"},
	)
	slices.Sort(p.keys)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), p.keys); diff != "" || len(p.patterns) > 0 {
		t.Errorf("labels of the policy (-agent +policy):\n%s", diff)
	}
}

// goldenKeys returns the keys in the golden files.
func goldenKeys(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.golden")
	assert.NilError(t, err)
	found := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		for line := range strings.Lines(string(data)) {
			if key, _, ok := strings.Cut(strings.TrimLeft(line, "+- "), "="); ok && !strings.HasPrefix(key, "#") {
				found[key] = true
			}
		}
	}
	if len(found) < 50 {
		t.Fatalf("the golden files have only the keys %v", slices.Sorted(maps.Keys(found)))
	}
	return slices.Sorted(maps.Keys(found))
}
