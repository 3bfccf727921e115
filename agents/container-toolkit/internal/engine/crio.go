package engine

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

// CRI-O's default paths.
const (
	crioConfig = "/etc/crio/crio.conf"
	crioDropIn = "/etc/crio/crio.conf.d/99-nvidia.toml"
)

// locateCRIO completes a target for CRI-O.
func (k *Keeper) locateCRIO(t *target) error {
	folder, socket := k.crioFolder(*t), k.config.Socket
	if t.process != nil {
		socket = cmp.Or(socket, t.process.givenSocket(CRIO))
	}
	t.dropIn = cmp.Or(t.dropIn, path.Join(folder, path.Base(crioDropIn)))
	if t.process != nil && !strings.HasPrefix(t.dropIn, folder+"/") && !k.host.sameFile(path.Dir(t.dropIn), folder) {
		return fmt.Errorf("find the config of crio: the running engine reads the folder %s, and does not read the drop-in file %s: leave the flag of the drop-in file empty", folder, t.dropIn)
	}
	if socket != "" {
		return nil
	}
	files, err := k.files(*t)
	if err != nil {
		return err
	}
	for _, f := range files {
		docs, err := decodeAll([]file{f})
		if err != nil {
			return nil //nolint:nilerr // the file is rejected where it is edited
		}
		if listen, _ := valueAt(docs[0], []string{"crio", "api", "listen"}).(string); path.IsAbs(listen) {
			t.socket = listen
		}
	}
	return nil
}

// crioFolder returns the folder whose files CRI-O reads after its main file.
func (k *Keeper) crioFolder(t target) string {
	folder := path.Dir(crioDropIn)
	if t.process != nil {
		folder = cmp.Or(t.process.path("config-dir", "d"), t.process.variable("CONTAINER_CONFIG_DIR"), folder)
	}
	return folder
}

// editCRIO returns the drop-in with the runtimes. CRI-O merges drop-ins, so no other file changes.
// files are the files that CRI-O loads, in this order. They include the drop-in only if it has
// content of other programs. v is the version of CRI-O.
func editCRIO(files []file, dropIn string, v version, d Desired) (edit, error) {
	docs, err := decodeAll(files)
	if err != nil {
		return edit{}, err
	}
	effective, present := map[string]any{}, map[string]any{}
	table := []string{"crio", "runtime"}
	for i, f := range files {
		effective = merge(effective, tableAt(docs[i], table))
		if f.path == dropIn {
			present = tableAt(docs[i], table)
		}
	}
	program, from := crioInherited(effective, v, d)
	text, err := crioText(textOf(files, dropIn), present, from, d)
	if err != nil {
		return edit{}, fmt.Errorf("write %s: %w", dropIn, err)
	}
	e := edit{lowLevel: program}
	e.addFile(dropIn, text)
	if d.CDI {
		e.addNote("CRI-O supports CDI by itself, unless its cdi_spec_dirs is empty")
	}
	return e, nil
}

// crioText returns the drop-in. The parameter present is the table of other programs in the
// drop-in. The parameter from is the table that new runtimes inherit.
func crioText(text []byte, present, from map[string]any, d Desired) ([]byte, error) {
	var err error
	set := func(value string, path ...string) {
		if err == nil {
			text, err = setText(text, append([]string{"crio", "runtime"}, path...), value)
		}
	}
	if d.Default != "" {
		set(d.Default, "default_runtime")
	}
	var tables []rawtoml.Table
	for _, r := range d.Runtimes {
		if tableAt(present, []string{"runtimes", r.Name}) != nil {
			set(r.Path, "runtimes", r.Name, "runtime_path")
			continue
		}
		values := clone(from)
		setKey(values, "runtime_path", r.Path)
		setKey(values, "runtime_type", "oci")
		tables = append(tables, rawtoml.Table{Path: []string{"crio", "runtime", "runtimes", r.Name}, Values: values})
	}
	if err != nil {
		return nil, err
	}
	return addTables(text, tables...)
}

// crunVersion is the first version of CRI-O whose built-in default runtime is crun instead of runc.
func crunVersion() version { return version{1, 31} }

// crioInherited returns the program of the default runtime, and the table that new runtimes inherit,
// for settings such as monitor_path. It omits the settings that are valid only for that program.
func crioInherited(runtime map[string]any, v version, d Desired) (string, map[string]any) {
	name, _ := valueAt(runtime, []string{"default_runtime"}).(string)
	if name == "" && v.known() {
		name = "runc"
		if v.atLeast(crunVersion()) {
			name = "crun"
		}
		if tableAt(runtime, []string{"runtimes", name}) == nil {
			return name, nil
		}
	}
	for _, name := range []string{name, "crun", "runc"} {
		table := tableAt(runtime, []string{"runtimes", name})
		kind, _ := valueAt(table, []string{"runtime_type"}).(string)
		if table == nil || d.hasRuntime(name) || kind != "" && kind != "oci" {
			continue
		}
		program, _ := valueAt(table, []string{"runtime_path"}).(string)
		table = clone(table)
		deleteKey(table, "platform_runtime_paths")
		deleteKey(table, "inherit_default_runtime")
		return lowLevel(cmp.Or(program, name)), table
	}
	return "", nil
}
