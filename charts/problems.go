package charts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common/util"
)

// Problem is a value that a chart does not accept, or that has no effect.
type Problem struct {
	// Path is the path of the value, such as driver.version.
	Path string `json:"path"`
	// Reason says why the chart does not accept the value, or does not use it.
	Reason string `json:"reason"`
	// Instead says what to write instead.
	Instead string `json:"instead"`
	// Changes of the values solve the problem. It is empty if only the user can decide.
	Changes []Change `json:"changes,omitempty"`
}

// Change is a new content of a value.
type Change struct {
	Path string `json:"path"`
	// Value is the content. If it is nil, the value is removed.
	Value any `json:"value,omitempty"`
}

// String returns the line that Helm prints for the problem.
func (p Problem) String() string {
	return p.Path + ": " + p.Reason + "; " + p.Instead
}

// Problems are all problems of the values of a release, in the order of their paths.
type Problems []Problem

// Error returns a line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Apply returns a copy of values with all changes.
func (p Problems) Apply(values map[string]any) map[string]any {
	for _, problem := range p {
		for _, change := range problem.Changes {
			values, _ = changed(values, steps(change.Path), change.Value).(map[string]any)
		}
	}
	return values
}

// InPool returns the problems of the values of a pool with their whole paths. It leaves out known problems, because a
// pool also has the values of all nodes.
func (p Problems) InPool(index int, known Problems) Problems {
	var found Problems
	for _, problem := range p {
		inPool := problem.below(fmt.Sprintf("pools[%d].values.", index))
		if !slices.ContainsFunc(known, func(k Problem) bool { return k.String() == problem.String() || k.String() == inPool.String() }) {
			found = append(found, inPool)
		}
	}
	return found
}

// below returns the problem with a longer path.
func (p Problem) below(at string) Problem {
	p.Path, p.Changes = at+p.Path, slices.Clone(p.Changes)
	for i := range p.Changes {
		p.Changes[i].Path = at + p.Changes[i].Path
	}
	return p
}

// err returns the problems as an error, sorted, each once.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.String(), b.String()) })
	return slices.CompactFunc(p, func(a, b Problem) bool { return a.String() == b.String() })
}

// Check returns all problems of the values of the chart outrigger, as Helm finds them when it installs the release, and
// notes on the values that have no effect. Other errors, such as a version of Kubernetes that the chart does not
// support, are in err.
func Check(r Release) (problems Problems, notes []Problem, err error) {
	c, err := Load(umbrella)
	if err != nil {
		return nil, nil, err
	}
	mistakes, valid, err := checkValues(c, r.Values)
	if err != nil {
		return nil, nil, err
	}
	r.Values, r.checked = valid, true
	_, err = execute(c, r)
	var found Problems
	if !errors.As(err, &found) && err != nil && len(mistakes) == 0 {
		return nil, nil, err
	}
	lines, err := Ignored(r)
	if err != nil && len(mistakes)+len(found) == 0 {
		return nil, nil, err
	}
	for _, line := range lines {
		notes = append(notes, noteOf(line))
	}
	_ = errors.As(append(mistakes, found...).err(), &problems)
	return problems, notes, nil
}

// noteOf reads a line of Ignored.
func noteOf(line string) Problem {
	path, text, _ := strings.Cut(line, ": ")
	reason, instead, _ := strings.Cut(text, "; ")
	return Problem{Path: path, Reason: reason, Instead: instead}
}

// recorded returns the problems that templates recorded in .Release.
func recorded(release map[string]any) Problems {
	all, _ := release["problems"].(map[string]any)
	var found Problems
	for _, line := range slices.Sorted(maps.Keys(all)) {
		fields, _ := all[line].(map[string]any)
		p := Problem{Path: fmt.Sprint(fields["path"]), Reason: fmt.Sprint(fields["reason"]), Instead: fmt.Sprint(fields["instead"])}
		changes, _ := fields["changes"].([]any)
		for _, c := range changes {
			change, _ := c.(map[string]any)
			p.Changes = append(p.Changes, Change{Path: fmt.Sprint(change["path"]), Value: change["value"]})
		}
		found = append(found, p)
	}
	return found
}

// step matches a step of a path: a key, or an index in brackets.
var step = regexp.MustCompile(`[^.\[\]]+`)

// steps returns the keys and indices of a path.
func steps(path string) []string { return step.FindAllString(path, -1) }

// changed returns a copy of a value with a new content at a path. If the content is nil, it removes the key or the item.
func changed(value any, path []string, to any) any {
	if len(path) == 0 {
		return to
	}
	if list, ok := value.([]any); ok {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(list) {
			return value
		}
		list = slices.Clone(list)
		if len(path) == 1 && to == nil {
			return slices.Delete(list, i, i+1)
		}
		list[i] = changed(list[i], path[1:], to)
		return list
	}
	before, ok := value.(map[string]any)
	if _, has := before[path[0]]; to == nil && !has || !ok && to == nil {
		return value
	}
	after := maps.Clone(before)
	if after == nil {
		after = map[string]any{}
	}
	if len(path) == 1 && to == nil {
		delete(after, path[0])
		return after
	}
	after[path[0]] = changed(before[path[0]], path[1:], to)
	return after
}

// poolMistakes returns the mistakes in the values of pools that the values of all nodes do not have.
func poolMistakes(m schemaOf, values map[string]any, known Problems) (Problems, error) {
	var found Problems
	list, _ := values["pools"].([]any)
	for i, item := range list {
		pool, _ := item.(map[string]any)
		own, ok := pool["values"].(map[string]any)
		if !ok {
			continue
		}
		own, err := jsonForm(own)
		if err != nil {
			return nil, err
		}
		others, err := jsonForm(without(values, "pools"))
		if err != nil {
			return nil, err
		}
		mistakes, err := m.mistakes(util.CoalesceTables(own, others))
		if err != nil {
			return nil, err
		}
		found = append(found, mistakes.InPool(i, known)...)
	}
	return found, nil
}
