package engine

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// importPattern returns the pattern for the drop-in in the imports of the main file. It is a
// pattern, because containerd does not start if an imported path is missing. It matches only
// our files.
func importPattern(dropIn string) string {
	ext := path.Ext(dropIn)
	return strings.TrimSuffix(dropIn, ext) + "*" + ext
}

// imported reports whether a config file imports another file. doc is the content of the
// config file, and the parameter from is its path.
func imported(doc map[string]any, from, file string) bool {
	list, _ := valueAt(doc, []string{"imports"}).([]any)
	return slices.ContainsFunc(list, func(v any) bool {
		pattern, _ := v.(string)
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(from), pattern)
		}
		ok, err := filepath.Match(path.Clean(pattern), file)
		return err == nil && ok
	})
}

// disablesCRI reports whether a config file disables the CRI plugin, as the config of Docker's
// packages does.
func disablesCRI(doc map[string]any) bool {
	list, _ := valueAt(doc, []string{"disabled_plugins"}).([]any)
	return slices.ContainsFunc(list, func(v any) bool {
		return v == "cri" || v == "io.containerd.grpc.v1.cri" || v == "io.containerd.cri.v1.runtime"
	})
}

func decodeAll(files []file) ([]map[string]any, error) {
	docs := make([]map[string]any, len(files))
	for i, f := range files {
		docs[i] = map[string]any{}
		if err := toml.Unmarshal(f.text, &docs[i]); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	return docs, nil
}
