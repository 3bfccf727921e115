package engine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// checker returns the function that checks the files after a change with the engine's own
// program. checker is called before the change, because it reads the old config to compare.
// An engine without such a program is not checked.
func (k *Keeper) checker(ctx context.Context, p Plan) (func(context.Context) error, error) {
	none := func(context.Context) error { return nil }
	t := p.target
	switch {
	case t.program == "":
		k.log.Debug("cannot find the program of the container engine, not checking its config", "engine", t.engine)
		return none, nil
	case t.engine == Docker && t.version.atLeast(version{23, 0}):
		return func(ctx context.Context) error {
			_, err := k.host.run(ctx, t.program, Docker.program(), "--validate", "--config-file", t.main)
			return rejected("dockerd rejects the changed config", err)
		}, nil
	case t.engine == Containerd && t.version.known() && !t.containerd.noDropIn && !t.containerd.external:
		before, err := k.dump(ctx, t)
		if err != nil {
			return nil, rejected("containerd rejects its present config, correct the config first", err)
		}
		return func(ctx context.Context) error {
			after, err := k.dump(ctx, t)
			if err != nil {
				return rejected("containerd rejects the changed config", err)
			}
			err = compareDumps(before, after, k.config.Desired())
			if ignored := t.ignoredVersion(p.Changes); err != nil && ignored != nil {
				return ignored
			}
			return err
		}, nil
	default:
		return none, nil
	}
}

// rejected returns the error of an engine's program that checked a config. A program that could not be started,
// or was ended at its limit, has rejected nothing.
func rejected(what string, err error) error {
	if err == nil {
		return nil
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || !ended.Exited() {
		what = "check the config of the container engine"
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ignoredVersion returns an error if a changed file has a config version that this containerd does not
// know. Containerd 1 starts with such a file, and ignores its tables of plugins.
func (t target) ignoredVersion(changes []Change) error {
	const newest = 2 // of containerd 1
	for _, c := range changes {
		doc := map[string]any{}
		if t.version.atLeast(version2()) || toml.Unmarshal(c.After, &doc) != nil {
			continue
		}
		if v := schemaOf(doc).version; v > newest {
			return fmt.Errorf("containerd %s ignores the settings of %s, which has version = %d: update containerd, or set version = %d and use the names of plugins of that version", t.version, c.Path, v, newest)
		}
	}
	return nil
}

// dump returns the config that containerd would load, with all files merged.
func (k *Keeper) dump(ctx context.Context, t target) (map[string]any, error) {
	args := []string{"--config", t.main, "config", "dump"}
	if real, err := k.host.path(t.main); err == nil && !exists(real) {
		args = []string{"config", "default"}
	}
	out, err := k.host.run(ctx, t.program, Containerd.program(), args...)
	if err != nil {
		return nil, err
	}
	doc := map[string]any{}
	if err := toml.Unmarshal([]byte(out), &doc); err != nil {
		return nil, fmt.Errorf("read the output of %s config dump: %w", t.program, err)
	}
	return doc, nil
}

// compareDumps compares the loaded configs before and after a change. It returns an error unless
// the changed config has the desired runtimes and no other difference.
func compareDumps(before, after map[string]any, d Desired) error {
	cri := tableAt(after, schemaOf(after).cri)
	for _, r := range d.Runtimes {
		got, _ := valueAt(cri, []string{"containerd", "runtimes", r.Name, "options", "BinaryName"}).(string)
		if got != r.Path {
			return fmt.Errorf("containerd would use %q for the runtime %s, not %s: another file that it imports sets it", got, r.Name, r.Path)
		}
	}
	if got := valueAt(cri, []string{"containerd", "default_runtime_name"}); d.Default != "" && got != d.Default {
		return fmt.Errorf("containerd would use %v as the default runtime, not %s: another file that it imports sets it", got, d.Default)
	}
	if path := firstDifference(withoutZeros(withoutDesired(before, d)), withoutZeros(withoutDesired(after, d)), nil); path != "" {
		return fmt.Errorf("containerd would change its setting %s: this is a fault of nvidia-container-toolkit, report it with the config file", path)
	}
	return nil
}

// withoutDesired returns a config without the settings that this package writes.
func withoutDesired(doc map[string]any, d Desired) map[string]any {
	path := schemaOf(doc).cri
	doc = clone(doc)
	deleteKey(doc, "imports")
	deleteKey(doc, "version")
	cri := clone(tableAt(doc, path))
	containerd := clone(tableAt(cri, []string{"containerd"}))
	runtimes := clone(tableAt(containerd, []string{"runtimes"}))
	for _, r := range d.Runtimes {
		delete(runtimes, r.Name)
	}
	deleteKey(cri, "enable_cdi")
	deleteKey(containerd, "default_runtime_name")
	setKey(containerd, "runtimes", runtimes)
	setKey(cri, "containerd", containerd)
	plugins := clone(tableAt(doc, []string{"plugins"}))
	plugins[path[len(path)-1]] = cri
	doc["plugins"] = plugins
	return doc
}

// withoutZeros returns a table without zero values, which containerd treats as missing. It
// returns nil if no value remains.
func withoutZeros(table map[string]any) map[string]any {
	var out map[string]any
	for k, v := range table {
		if sub, ok := v.(map[string]any); ok {
			v = withoutZeros(sub)
		}
		if isZero(v) {
			continue
		}
		if out == nil {
			out = map[string]any{}
		}
		out[k] = v
	}
	return out
}

func isZero(v any) bool {
	if v == nil {
		return true
	}
	// Reflection is necessary, because a value of a document can have any type.
	r := reflect.ValueOf(v)
	return r.IsZero() || (r.Kind() == reflect.Slice || r.Kind() == reflect.Map) && r.Len() == 0
}

// firstDifference returns the path of a value that differs between two configs, or "".
func firstDifference(a, b map[string]any, path []string) string {
	for _, k := range sortedKeys(merge(a, b)) {
		x, inA := a[k].(map[string]any)
		y, inB := b[k].(map[string]any)
		here := append(slices.Clip(path), k)
		if inA && inB {
			if d := firstDifference(x, y, here); d != "" {
				return d
			}
		} else if !reflect.DeepEqual(a[k], b[k]) { // values of any type
			return strings.Join(here, ".")
		}
	}
	return ""
}
