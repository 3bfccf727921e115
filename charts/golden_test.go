package charts_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// base returns the variant of the same chart against which the golden file of a variant shows what
// differs: the defaults, or what a line "# golden: against VARIANT" of its file of values says. It
// returns "" if the golden file has all objects: that of the defaults, or with a line "# golden: whole".
// So a change of a template changes one golden file of its chart, and not those of all variants.
func (v variant) base(t *testing.T) string {
	t.Helper()
	if v.name == "defaults" {
		return ""
	}
	text, err := os.ReadFile(v.path() + ".values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	is := regexp.MustCompile(`(?m)^# golden: (.*)$`).FindSubmatch(text)
	if is == nil {
		return "defaults"
	}
	base, against := strings.CutPrefix(string(is[1]), "against ")
	if !against && base != "whole" {
		t.Fatalf("%s.values.yaml: %q: must be whole, or against VARIANT", v.path(), is[0])
	}
	if against {
		return base
	}
	return ""
}

// listed is an object of a chart.
type listed struct {
	// id is its kind, namespace and name.
	id string
	// lines has a line "PATH: VALUE" for each of its values.
	lines []string
}

func (o listed) kind() string {
	kind, _, _ := strings.Cut(o.id, " ")
	return kind
}

// parsed lists what a chart renders.
func parsed(t *testing.T, rendered string) []listed {
	t.Helper()
	var out []listed
	for document := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if len(o) == 0 {
			continue
		}
		metadata, _ := o["metadata"].(map[string]any)
		id := fmt.Sprint(o["kind"], " ", metadata["name"])
		if namespace, ok := metadata["namespace"]; ok {
			id = fmt.Sprint(o["kind"], " ", namespace, "/", metadata["name"])
		}
		out = append(out, listed{id, flat("", o)})
	}
	return out
}

// flat returns the lines of a value. An element of a list has its name or nothing instead of a number,
// which would change with the elements before it.
func flat(path string, value any) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, flat(strings.TrimPrefix(path+"."+key, "."), v[key])...)
		}
	case []any:
		for _, element := range v {
			name := ""
			if named, ok := element.(map[string]any); ok && named["name"] != nil {
				name = fmt.Sprint(named["name"])
			}
			out = append(out, flat(path+"["+name+"]", element)...)
		}
	case string:
		if before, rest, more := strings.Cut(v, "\n"); more {
			out = append(out, path+"| "+before)
			for line := range strings.SplitSeq(rest, "\n") {
				out = append(out, path+"| "+line)
			}
			return out
		}
		out = append(out, fmt.Sprintf("%s: %q", path, v))
	}
	if len(out) == 0 {
		out = append(out, fmt.Sprintf("%s: %v", path, value))
	}
	return out
}

// difference returns how objects differ from others: "-" and "+" begin what only one of them has. An object
// with a new name, after "~", is compared with the first object of its kind whose name is gone.
func difference(from, to []listed) string {
	var b strings.Builder
	before, after := map[string]listed{}, map[string]bool{}
	for _, o := range from {
		before[o.id] = o
	}
	for _, o := range to {
		after[o.id] = true
	}
	for _, o := range to {
		was, found := before[o.id]
		renamed := slices.IndexFunc(from, func(f listed) bool {
			_, left := before[f.id]
			return left && !after[f.id] && f.kind() == o.kind()
		})
		if !found && renamed >= 0 {
			was = from[renamed]
		}
		delete(before, was.id)
		lines := differingLines(was.lines, o.lines)
		switch {
		case !found && renamed >= 0:
			fmt.Fprintf(&b, "~ %s → %s\n", was.id, o.id)
		case !found:
			fmt.Fprintf(&b, "+ %s\n", o.id)
		case len(lines) > 0:
			fmt.Fprintf(&b, "%s\n", o.id)
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	for _, o := range from {
		if _, left := before[o.id]; left {
			fmt.Fprintf(&b, "- %s\n", o.id)
		}
	}
	return b.String()
}

// differingLines returns the lines that only one of two lists has, with "- " or "+ " before them. What
// they have in common is their longest common subsequence.
func differingLines(from, to []string) []string {
	common := make([][]int, len(from)+1) // how much from[i:] and to[j:] have in common
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i, line := range slices.Backward(from) {
		for j, other := range slices.Backward(to) {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); line == other {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			i, j = i+1, j+1
		case j == len(to) || i < len(from) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+from[i])
			i++
		default:
			out = append(out, "+ "+to[j])
			j++
		}
	}
	return out
}

// TestDifference compares what golden files of variants hold with an example.
func TestDifference(t *testing.T) {
	const before = `kind: Role
metadata: {name: a, namespace: ns}
rules:
  - {verbs: [get, list]}
---
kind: DaemonSet
metadata: {name: b}
spec:
  containers:
    - {name: main, args: [--one, --two], env: [{name: A, value: "1"}]}
---
kind: ConfigMap
metadata: {name: gone}
---
kind: Service
metadata: {name: less}
`
	const after = `kind: DaemonSet
metadata: {name: b}
spec:
  containers:
    - {name: first, image: x}
    - {name: main, args: [--zero, --one], env: [{name: A, value: "2"}], privileged: true}
---
kind: Role
metadata: {name: a, namespace: ns}
rules:
  - {verbs: [get, list]}
---
kind: ConfigMap
metadata: {name: new}
data: {text: "one\ntwo\n", none: {}}
---
kind: Secret
metadata: {name: more}
`
	const want = `DaemonSet b
  + spec.containers[first].image: "x"
  + spec.containers[first].name: "first"
  + spec.containers[main].args[]: "--zero"
  - spec.containers[main].args[]: "--two"
  - spec.containers[main].env[A].value: "1"
  + spec.containers[main].env[A].value: "2"
  + spec.containers[main].privileged: true
~ ConfigMap gone → ConfigMap new
  + data.none: map[]
  + data.text| one
  + data.text| two
  + data.text| 
  - metadata.name: "gone"
  + metadata.name: "new"
+ Secret more
  + kind: "Secret"
  + metadata.name: "more"
- Service less
`
	got := difference(parsed(t, before), parsed(t, after))
	if line, w, g := firstDifference(want, got); line > 0 {
		t.Errorf("line %d (-want +got)\n-%s\n+%s\nin\n%s", line, w, g, got)
	}
}
