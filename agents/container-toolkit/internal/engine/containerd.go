package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

// containerd's default paths.
const (
	containerdConfig = "/etc/containerd/config.toml"
	containerdDropIn = "/etc/containerd/conf.d/99-nvidia.toml"
	// runcType is the runtime_type of containerd's own runc runtime.
	runcType = "io.containerd.runc.v2"
)

// containerdEdit describes how to edit the config of containerd.
type containerdEdit struct {
	// main is the main config file, dropIn the file for the runtime tables.
	main, dropIn string
	// engine is the version of containerd; zero if it is not known.
	engine version
	// runc is the table of containerd's default runtime. containerd 1.x drops that runtime if a
	// file has a table of another runtime.
	runc map[string]any
	// generated is true if another program writes the main file. Such a file is not edited.
	generated bool
	// external is true if another program merges the drop-in into the config.
	external bool
	// noDropIn is true if the main file is a template, which does not support drop-ins.
	noDropIn bool
}

// mergesTables is the first version of containerd that merges the plugin tables of imported
// files. In older versions, the table of the last file replaces the others (containerd issue 5837).
func mergesTables() version { return version{2, 1} }

// edit returns the config files with the runtimes. files are the files that containerd loads, in
// this order, the main file first. They include the drop-in only if it has content of other
// programs.
func (c containerdEdit) edit(files []file, d Desired) (edit, error) {
	files = slices.Clone(files)
	docs, err := decodeAll(files)
	if err != nil {
		return edit{}, err
	}
	for i, doc := range docs {
		if disablesCRI(doc) {
			return edit{}, fmt.Errorf("edit %s: it turns containerd's support for Kubernetes off: remove \"cri\" from disabled_plugins first", files[i].path)
		}
	}
	merges := c.engine.atLeast(mergesTables())
	if c.generated && !merges {
		e := edit{lowLevel: containerdLowLevel(inherited(tableAt(docs[0], schemaOf(docs[0]).cri), d))}
		e.addNote("%s is written by the Kubernetes distribution, which registers the runtime itself when it starts; it sets the default runtime by its own flag", c.main)
		return e, nil
	}
	main := files[0]
	if len(docs[0]) == 0 && c.generated {
		docs[0]["version"] = int64(3)
	} else if len(docs[0]) == 0 {
		version := "2"
		if c.engine.atLeast(version2()) {
			version = "3"
		}
		if main.text, err = rawtoml.Set(main.text, []string{"version"}, version); err != nil {
			return edit{}, fmt.Errorf("edit %s: %w", main.path, err)
		}
		files[0] = main
		docs[0] = map[string]any{"version": int64(version[0] - '0')}
	}
	schema := schemaOf(docs[0])
	if c.noDropIn || !(c.external || merges) {
		return c.editPluginFile(files, docs, schema, d)
	}
	return c.editDropIn(files, docs, schema, d)
}

// editDropIn writes only the runtime tables to the drop-in, and one import to the main file.
func (c containerdEdit) editDropIn(files []file, docs []map[string]any, schema schema, d Desired) (edit, error) {
	effective := map[string]any{}
	for _, doc := range docs {
		effective = merge(effective, tableAt(doc, schemaOf(doc).cri))
	}
	e := edit{}
	var err error
	var present map[string]any
	text := textOf(files, c.dropIn)
	if blank(text) {
		text, err = rawtoml.Set(text, []string{"version"}, fmt.Sprint(schema.version))
	} else {
		doc := docs[slices.IndexFunc(files, func(f file) bool { return f.path == c.dropIn })]
		schema = schemaOf(doc)
		present = tableAt(doc, schema.cri)
	}
	if err == nil {
		text, err = schema.apply(text, effective, present, c.settings(d, effective, schema, &e))
	}
	if err != nil {
		return edit{}, fmt.Errorf("write %s: %w", c.dropIn, err)
	}
	e.addFile(c.dropIn, text)
	main := files[0]
	if c.external || imported(docs[0], main.path, c.dropIn) {
		if !c.external && !c.generated {
			e.addFile(main.path, main.text)
		}
		return e, nil
	}
	if c.generated && !blank(main.text) {
		return edit{}, fmt.Errorf("edit %s: another program writes this file, and does not import %s: update that program, or add the import to its template", main.path, c.dropIn)
	}
	if c.generated {
		return e, nil
	}
	if main.text, err = rawtoml.AddToList(main.text, importsIn(main.text), importPattern(c.dropIn)); err != nil {
		return edit{}, fmt.Errorf("edit %s: %w", main.path, err)
	}
	e.addFile(main.path, main.text)
	return e, nil
}

// editPluginFile writes the runtime tables to the file whose plugin table containerd uses. This is the
// last file with a plugin table, because a later table replaces an earlier one.
func (c containerdEdit) editPluginFile(files []file, docs []map[string]any, schema schema, d Desired) (edit, error) {
	at := 0
	for i, doc := range docs {
		if tableAt(doc, schemaOf(doc).cri) != nil {
			at = i
		}
	}
	if at > 0 {
		schema = schemaOf(docs[at])
	}
	f := files[at]
	e := edit{}
	present := tableAt(docs[at], schema.cri)
	effective := present
	runc := tableAt(present, []string{"containerd", "runtimes"}) == nil && !c.engine.atLeast(version2())
	if runc {
		effective = merge(present, map[string]any{"containerd": map[string]any{"runtimes": map[string]any{"runc": c.ownRuntime()}}})
	}
	want := c.settings(d, effective, schema, &e)
	if runc {
		want.runtimes["runc"] = c.ownRuntime()
	}
	text, err := schema.apply(f.text, effective, present, want)
	if err != nil {
		return edit{}, fmt.Errorf("edit %s: %w", f.path, err)
	}
	if c.engine.known() && !c.noDropIn {
		e.addNote("containerd %s replaces all settings of its CRI plugin with the settings of a drop-in file, so the runtimes are added to %s itself", c.engine, f.path)
	}
	e.addFile(f.path, text)
	if at > 0 && !blank(files[0].text) {
		e.addFile(files[0].path, files[0].text)
	}
	return e, nil
}

// ownRuntime returns the table of containerd's built-in runtime runc.
func (c containerdEdit) ownRuntime() map[string]any {
	if c.runc != nil {
		return c.runc
	}
	return map[string]any{"runtime_type": runcType}
}

// settings holds the desired values, by their paths below the table of the CRI plugin.
type settings struct {
	runtimes map[string]map[string]any
	values   map[string]any
}

func (c containerdEdit) settings(d Desired, effective map[string]any, schema schema, e *edit) settings {
	s := settings{runtimes: map[string]map[string]any{}, values: map[string]any{}}
	from := inherited(effective, d)
	e.lowLevel = containerdLowLevel(from)
	for _, r := range d.Runtimes {
		table := clone(from)
		if t, _ := valueAt(table, []string{"runtime_type"}).(string); t == "" {
			setKey(table, "runtime_type", cmp.Or(d.RuntimeType, runcType))
		}
		options := clone(tableAt(table, []string{"options"}))
		setKey(options, "BinaryName", r.Path)
		if schema.version < 2 {
			setKey(options, "Runtime", r.Path)
		}
		setKey(table, "options", options)
		if len(d.Annotations) > 0 {
			setKey(table, "container_annotations", d.Annotations)
		}
		s.runtimes[r.Name] = table
	}
	if d.Default != "" {
		s.values["containerd.default_runtime_name"] = d.Default
	}
	switch {
	case !d.CDI, len(spellings(effective, "enable_cdi")) == 0 && c.engine.atLeast(version2()):
		// CDI is not desired, or containerd turns it on by default.
	case c.engine.known() && !c.engine.atLeast(version{1, 7}):
		e.addNote("containerd %s does not support CDI: use containerd 1.7 or later", c.engine)
	default:
		s.values["enable_cdi"] = true
	}
	return s
}

// apply writes the settings to text. The parameter effective is the plugin's table with all files
// merged. The parameter present is the plugin's table in this text.
func (s schema) apply(text []byte, effective, present map[string]any, want settings) ([]byte, error) {
	runtimes := append(slices.Clone(s.cri), "containerd", "runtimes")
	var tables []rawtoml.Table
	var err error
	for _, name := range sortedKeys(want.runtimes) {
		at := append(slices.Clone(runtimes), name)
		there := tableAt(present, []string{"containerd", "runtimes", name})
		if there == nil {
			values := respelled(want.runtimes[name], tableAt(effective, []string{"containerd", "runtimes", name}))
			tables = append(tables, rawtoml.Table{Path: at, Values: values})
			continue
		}
		if text, err = completeRuntime(text, at, there, want.runtimes[name]); err != nil {
			return nil, err
		}
	}
	for _, key := range sortedKeys(want.values) {
		value := want.values[key]
		keys := strings.Split(key, ".")
		if valueAt(effective, keys) == value {
			continue
		}
		if text, err = setText(text, append(slices.Clone(s.cri), keys...), value); err != nil {
			return nil, err
		}
	}
	if len(tables) == 0 {
		return text, nil
	}
	return addTables(text, tables...)
}

// completeRuntime adds our program and missing keys to a runtime that the file already has.
func completeRuntime(text []byte, at []string, there, want map[string]any) ([]byte, error) {
	var err error
	for _, k := range sortedKeys(want) {
		path := append(slices.Clone(at), k)
		if sub, ok := want[k].(map[string]any); ok {
			if text, err = completeRuntime(text, path, tableAt(there, []string{k}), sub); err != nil {
				return nil, err
			}
			continue
		}
		have := spellings(there, k)
		same := !slices.ContainsFunc(have, func(h string) bool { return !sameValue(there[h], want[k]) })
		if len(have) > 0 && (same || !ourKey(k)) {
			continue
		}
		if text, err = setText(text, path, want[k]); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// ourKey reports whether the value of a runtime's setting is replaced by ours.
func ourKey(key string) bool {
	return slices.ContainsFunc([]string{"BinaryName", "Runtime", "container_annotations"}, func(k string) bool { return strings.EqualFold(k, key) })
}
