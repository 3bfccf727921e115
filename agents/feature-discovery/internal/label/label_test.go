package label_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// The rules of Kubernetes, from "Syntax and character set" of its page on
// labels: the name in a key, and a value.
var (
	keyText   = regexp.MustCompile(`^nvidia\.com/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	valueText = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// of returns the labels, and checks the properties that all labels have.
func of(t *testing.T, f label.Facts) map[string]string {
	t.Helper()
	got := label.Derive(f)
	for key, value := range got {
		if !keyText.MatchString(key) || !valueText.MatchString(value) {
			t.Errorf("Kubernetes rejects the label %s=%s", key, value)
		}
		if !own(key) {
			t.Errorf("own(%q) = false for a label of Of", key)
		}
	}
	if _, ok := got["nvidia.com/gfd.timestamp"]; ok {
		t.Error("Of sets the timestamp")
	}
	return got
}

// facts returns the Facts of a node in a usual machine with compute GPUs only.
func facts(n *gpu.Node, c config.Config) label.Facts {
	f := label.Facts{Node: n, Config: c, Machine: "ProLiant DL380 Gen10"}
	for _, g := range n.GPUs {
		if g.PCI.BusID != "" {
			f.PCI = append(f.PCI, pci.Device{BusID: g.PCI.BusID, Vendor: 0x10de, Class: 0x030200, VGPU: pci.VGPU{Known: true}})
		}
	}
	return f
}

// load parses a config file, so that the tests contain what users write.
func load(t testing.TB, lines ...string) config.Config {
	t.Helper()
	c, err := config.Load(config.Explicit{}, []byte(strings.Join(lines, "\n")), "config.yaml")
	assert.NilError(t, err)
	return c
}

func strategy(s string) string { return "flags: {migStrategy: " + s + "}" }

// sharing returns the line of a config that advertises all of these resources n
// times. more is additional text of the block.
func sharing(way, more string, n int, resources ...string) string {
	var list []string
	for _, r := range resources {
		list = append(list, fmt.Sprintf("{name: %s, replicas: %d}", r, n))
	}
	return fmt.Sprintf("sharing: {%s: {%sresources: [%s]}}", way, more, strings.Join(list, ", "))
}

// listing returns the labels as lines.
func listing(labels map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s\n", key, labels[key])
	}
	return b.String()
}

// changes returns the differences between two sets of labels as lines.
func changes(from, to map[string]string) string {
	all := maps.Clone(from)
	maps.Copy(all, to)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := from[key]
		is, has := to[key]
		if had && (!has || was != is) {
			fmt.Fprintf(&b, "- %s=%s\n", key, was)
		}
		if has && (!had || was != is) {
			fmt.Fprintf(&b, "+ %s=%s\n", key, is)
		}
	}
	return b.String()
}
