package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/hostfs"
)

// Dir is a folder of CDI specs, usually /var/run/cdi, in which one vendor is
// ours.
type Dir struct {
	Path string
	// Vendor of the specs that belong to this process: "k8s.device-plugin.nvidia.com".
	Vendor string
}

// Sync makes the folder hold exactly these specs of the vendor. A spec that is
// there already is not written again; others of the vendor are removed, those
// of other vendors stay. It returns whether it changed anything.
func (d Dir) Sync(want ...*specs.Spec) (bool, error) {
	files := map[string][]byte{}
	for _, spec := range want {
		name, err := d.fileName(spec)
		if err != nil {
			return false, err
		}
		if files[name], err = Encode(spec); err != nil {
			return false, err
		}
	}
	if len(files) > 0 {
		if err := os.MkdirAll(d.Path, 0o755); err != nil {
			return false, fmt.Errorf("create CDI folder %s: %w", d.Path, err)
		}
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(files)) {
		wrote, err := hostfs.WriteIfChanged(filepath.Join(d.Path, name), files[name], 0o644)
		if err != nil {
			return changed, fmt.Errorf("write CDI spec: %w", err)
		}
		changed = changed || wrote
	}
	removed, err := d.prune(files)
	return changed || removed, err
}

// fileName returns the name that CDI gives to a vendor's spec of a class.
func (d Dir) fileName(spec *specs.Spec) (string, error) {
	vendor, class := parser.ParseQualifier(spec.Kind)
	if vendor != d.Vendor || class == "" {
		return "", fmt.Errorf("write CDI spec of kind %q: the vendor is not %s", spec.Kind, d.Vendor)
	}
	return vendor + "-" + class + ".json", nil
}

// prune removes the vendor's specs that are not in keep.
func (d Dir) prune(keep map[string][]byte) (bool, error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list CDI folder %s: %w", d.Path, err)
	}
	removed := false
	var errs []error
	for _, e := range entries {
		name := e.Name()
		ext := filepath.Ext(name)
		if _, ok := keep[name]; ok || !strings.HasPrefix(name, d.Vendor+"-") || (ext != ".json" && ext != ".yaml") {
			continue
		}
		if err := os.Remove(filepath.Join(d.Path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove stale CDI spec: %w", err))
			continue
		}
		removed = true
	}
	return removed, errors.Join(errs...)
}

// Encode returns the spec as JSON. Equal specs give equal bytes.
func Encode(spec *specs.Spec) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(spec); err != nil {
		return nil, fmt.Errorf("encode CDI spec %s: %w", spec.Kind, err)
	}
	return b.Bytes(), nil
}
