package podinfo

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rules select the labels of pods that become labels of metrics.
type Rules struct {
	// Allow selects labels by their keys. An expression may match any part of a key. If Allow is
	// empty, all labels are selected.
	Allow []*regexp.Regexp
	// Reserved has the names of the labels that the exporter sets itself.
	Reserved []string
}

// Label is a label of a metric.
type Label struct{ Name, Value string }

// ParseAllow parses the expressions of an allow-list, with the syntax of package regexp. It
// reports all invalid expressions.
func ParseAllow(expressions []string) ([]*regexp.Regexp, error) {
	var out []*regexp.Regexp
	var invalid error
	for _, e := range expressions {
		if e == "" {
			continue
		}
		r, err := regexp.Compile(e)
		if err != nil {
			invalid = errors.Join(invalid, fmt.Errorf("parse the allow-list of pod labels: %q: %w: write it in the syntax of RE2, as ^app\\.kubernetes\\.io/", e, err))
			continue
		}
		out = append(out, r)
	}
	return out, invalid
}

// Labels returns the selected labels of a pod, in the order of their keys. Each name is unique and
// valid in Prometheus: it is the key, with "_" in place of each character except letters, digits
// and "_". A reserved name gets the prefix "label_". If an earlier key has the same name, the name
// gets the suffix "_2", "_3" and so on.
func (r Rules) Labels(podLabels map[string]string) []Label {
	var out []Label
	taken := map[string]bool{"": true}
	for _, key := range slices.Sorted(maps.Keys(podLabels)) {
		if !r.allows(key) {
			continue
		}
		name := labelName(key)
		if slices.Contains(r.Reserved, name) {
			name = "label_" + name
		}
		base := name
		for n := 2; taken[name] || slices.Contains(r.Reserved, name); n++ {
			name = base + "_" + strconv.Itoa(n)
		}
		taken[name] = true
		out = append(out, Label{Name: name, Value: podLabels[key]})
	}
	return out
}

func (r Rules) allows(key string) bool {
	return len(r.Allow) == 0 || slices.ContainsFunc(r.Allow, func(e *regexp.Regexp) bool { return e.MatchString(key) })
}

// labelName converts a key to a valid name of a label, which must not begin with a digit.
func labelName(key string) string {
	name := strings.Map(func(c rune) rune {
		if c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, key)
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}
