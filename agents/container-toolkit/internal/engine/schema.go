package engine

import (
	"cmp"
	"fmt"
	"maps"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// schema has the places of settings in a version of containerd's config.
type schema struct {
	// version is the version of the config file. A file without a version has version 1.
	version int64
	// cri is the table of the plugin that runs containers for Kubernetes.
	cri []string
}

// schemaOf returns the schema of a config file.
func schemaOf(doc map[string]any) schema {
	v, _ := valueAt(doc, []string{"version"}).(int64)
	switch {
	case v >= 3:
		return schema{version: v, cri: []string{"plugins", "io.containerd.cri.v1.runtime"}}
	case v == 2:
		return schema{version: v, cri: []string{"plugins", "io.containerd.grpc.v1.cri"}}
	default:
		return schema{version: 1, cri: []string{"plugins", "cri"}}
	}
}

// version is the version of an engine; zero if it is not known.
type version struct{ major, minor int }

// version2 is the first version of containerd with config version 3.
func version2() version { return version{2, 0} }

// parseVersion returns the version in the output of an engine's --version: the first word of
// the form 1.2.3.
func parseVersion(text string) version {
	for word := range strings.FieldsSeq(text) {
		parts := strings.SplitN(strings.TrimPrefix(word, "v"), ".", 3)
		if len(parts) < 3 {
			continue
		}
		major, errMajor := strconv.Atoi(parts[0])
		minor, errMinor := strconv.Atoi(parts[1])
		if errMajor == nil && errMinor == nil {
			return version{major, minor}
		}
	}
	return version{}
}

func (v version) known() bool { return v != version{} }

func (v version) atLeast(w version) bool {
	return v.major > w.major || v.major == w.major && v.minor >= w.minor
}

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// inherited returns the table that new runtimes inherit: the table of the default runtime if its
// runtime_type is runc's or is not set, otherwise the table of runc or crun. It returns nil for the
// built-in runtime, which has no table.
func inherited(cri map[string]any, d Desired) map[string]any {
	name, _ := valueAt(cri, []string{"containerd", "default_runtime_name"}).(string)
	const builtIn = "runc"
	if cmp.Or(name, builtIn) == builtIn && tableAt(cri, []string{"containerd", "runtimes", builtIn}) == nil {
		return nil
	}
	for _, name := range []string{name, builtIn, "crun"} {
		table := tableAt(cri, []string{"containerd", "runtimes", name})
		kind, _ := valueAt(table, []string{"runtime_type"}).(string)
		if table != nil && !d.hasRuntime(name) && !strings.HasPrefix(name, "nvidia") &&
			(kind == "" || strings.HasPrefix(kind, "io.containerd.runc.") || strings.HasPrefix(kind, "io.containerd.runtime.v1.")) {
			return table
		}
	}
	return nil
}

// tableAt returns the table at a path, or nil.
func tableAt(doc map[string]any, path []string) map[string]any {
	table, _ := valueAt(doc, path).(map[string]any)
	return table
}

// merge returns a table with the values of both. Values of b replace values of a.
func merge(a, b map[string]any) map[string]any {
	out := clone(a)
	for k, v := range b {
		x, isTable := out[k].(map[string]any)
		y, both := v.(map[string]any)
		if isTable && both {
			v = merge(x, y)
		}
		out[k] = v
	}
	return out
}

// clone returns a copy of a table. The copy is never nil.
func clone(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	maps.Copy(out, m)
	return out
}

// sameTOML reports whether two documents have the same values.
func sameTOML(a, b []byte) bool {
	var x, y map[string]any
	// Reflection is necessary, because a document has values of any type.
	return toml.Unmarshal(a, &x) == nil && toml.Unmarshal(b, &y) == nil && len(x) == len(y) && (len(x) == 0 || reflect.DeepEqual(x, y))
}

// sameValue reports whether a decoded value equals a desired one.
func sameValue(decoded, want any) bool {
	if list, ok := want.([]string); ok {
		values, _ := decoded.([]any)
		return slices.EqualFunc(values, list, func(v any, s string) bool { return v == s })
	}
	return decoded == want
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
