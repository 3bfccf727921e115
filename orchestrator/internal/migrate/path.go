package migrate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// index matches the index of an item in a path: "pools[0].values".
var index = regexp.MustCompile(`\[(\d+)\]`)

// keys returns the keys of a path. The index of an item is a key too.
func keys(path string) []string {
	return strings.Split(index.ReplaceAllString(path, ".$1"), ".")
}

// lookup returns the value at a path, or nil.
func lookup(values map[string]any, path string) any {
	var at any = values
	for _, key := range keys(path) {
		switch section := at.(type) {
		case map[string]any:
			at = section[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(section) {
				return nil
			}
			at = section[i]
		default:
			return nil
		}
	}
	return at
}

// set sets the value at a path without indices.
func set(values map[string]any, path string, value any) {
	all := keys(path)
	for _, key := range all[:len(all)-1] {
		values = child(values, key)
	}
	values[all[len(all)-1]] = value
}

// remove removes the value at a path. If the path leads into a value that is no map, it removes this value. It returns
// the path and the value that it has removed, or "" if nothing exists there.
func remove(values map[string]any, path string) (removed string, value any) {
	all := keys(path)
	at, holder, last := any(values), values, 0
	for i, key := range all {
		switch section := at.(type) {
		case map[string]any:
			next, is := section[key]
			if !is {
				return "", nil
			}
			holder, last, at = section, i, next
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(section) {
				return "", nil
			}
			if i == len(all)-1 {
				holder[all[last]] = slices.Delete(slices.Clone(section), n, n+1)
				return path, section[n]
			}
			at = section[n]
		default:
			return cutTo(holder, all, last)
		}
	}
	return cutTo(holder, all, last)
}

// cutTo removes the entry of holder with the key all[last].
func cutTo(holder map[string]any, all []string, last int) (removed string, value any) {
	value = holder[all[last]]
	delete(holder, all[last])
	return strings.Join(all[:last+1], "."), value
}
