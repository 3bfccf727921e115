package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
	"outrigger.dev/pkg/pace"
)

// runtimeProgram is the program of the runtime. The programs for single modes have a suffix.
const runtimeProgram = "nvidia-container-runtime"

// Config holds the settings of a Keeper.
type Config struct {
	Engine Name
	// HostRoot and ProcRoot are the folders where this process sees the host's / and /proc.
	HostRoot, ProcRoot string
	// ConfigPath, DropIn, Socket and Executable are paths on the host. If a path is "", the
	// Keeper uses the path of the running engine, or the default.
	ConfigPath, DropIn, Socket, Executable string
	// Records is the folder on the host for the data that Undo needs; "" is the default folder,
	// which the agent and nvidia-ctk of root share.
	Records string
	// RuntimeName is the name of the runtime; "" is nvidia.
	RuntimeName string
	// RuntimePath is the path of nvidia-container-runtime on the host. The programs of the
	// other runtimes are next to it.
	RuntimePath string
	// Modes adds the runtimes for single modes, nvidia-cdi and nvidia-legacy.
	Modes bool
	// SetAsDefault makes the runtime the default runtime.
	SetAsDefault bool
	// CDI turns CDI on in the engine.
	CDI bool
	// Annotations and RuntimeType are as in Desired.
	Annotations []string
	RuntimeType string
	// Recognize makes Undo remove the runtimes from Docker's config even if there is no record.
	// In the config of other engines, marks show the added text.
	Recognize bool
	// Ask returns the loaded config of the running engine. Without it, an engine counts as
	// up to date if it started after its files were written.
	Ask Ask
	// Reload selects how the Keeper makes the engine load its config.
	Reload ReloadMode
}

// Desired returns the desired config.
func (c Config) Desired() Desired {
	d := Desired{CDI: c.CDI, Annotations: c.Annotations, RuntimeType: c.RuntimeType}
	name := cmp.Or(c.RuntimeName, "nvidia")
	d.Runtimes = []Runtime{{Name: name, Path: c.RuntimePath}}
	for _, mode := range []string{"cdi", "legacy"} {
		if name := "nvidia-" + mode; c.Modes && !d.hasRuntime(name) {
			d.Runtimes = append(d.Runtimes, Runtime{Name: name, Path: c.RuntimePath + "." + mode})
		}
	}
	if c.SetAsDefault {
		d.Default = name
	}
	return d
}

// Keeper reconciles the config of a container engine.
type Keeper struct {
	config  Config
	host    host
	records records
	log     *slog.Logger
	// step is called before each step of a change. Tests stop there.
	step func(string)
	// pause waits before a file is read again. It returns false if ctx has ended. Tests replace it.
	pause func(ctx context.Context) bool
	// last is the process of the engine that was found last, and version the version that its program has
	// printed. They stand for an engine that restarts, and has no process for a moment. Tests set version.
	// Both belong to locate, which holds mu.
	mu      sync.Mutex
	last    *process
	version version
	// tried identifies the config that the Keeper last made the engine load.
	tried string
}

// New creates a Keeper. It does no I/O.
func New(c Config, log *slog.Logger) (*Keeper, error) {
	if !slices.Contains(allNames(), c.Engine) {
		return nil, fmt.Errorf("unknown container engine %q: use docker, containerd or crio", c.Engine)
	}
	c.HostRoot = cmp.Or(c.HostRoot, "/")
	c.ProcRoot = cmp.Or(c.ProcRoot, "/proc")
	c.Records = cmp.Or(c.Records, recordFolder)
	for _, p := range []string{c.ConfigPath, c.DropIn, c.Socket, c.RuntimePath, c.Records} {
		if p != "" && !path.IsAbs(p) {
			return nil, fmt.Errorf("%q is not an absolute path", p)
		}
	}
	if c.Engine == CRIO && c.Reload == Signal {
		return nil, errors.New("the restart mode signal does not work for CRI-O: after SIGHUP, it shows a new runtime in its config, and still rejects pods that use it: use the restart mode systemd or none")
	}
	if c.RuntimePath == "" {
		return nil, fmt.Errorf("the path of %s is empty", runtimeProgram)
	}
	return &Keeper{
		config:  c,
		host:    host{root: c.HostRoot, proc: c.ProcRoot, outside: c.Engine == CRIO},
		records: c.records(),
		log:     log,
		step:    func(string) {},
		pause:   func(ctx context.Context) bool { return pace.Pause(ctx, writePause) },
	}, nil
}

// Plan returns the changes that Apply would make. It writes nothing.
func (k *Keeper) Plan(ctx context.Context) (Plan, error) {
	t, err := k.locate(ctx)
	if err != nil {
		return Plan{}, err
	}
	if t.engine == Containerd && t.version.known() && !t.version.atLeast(version2()) && t.program != "" && !t.containerd.noDropIn {
		// The checker reports a config that containerd rejects.
		if doc, err := k.dump(ctx, t); err == nil {
			t.containerd.runc = withoutZeros(tableAt(doc, append(schemaOf(doc).cri, "containerd", "runtimes", "runc")))
		}
	}
	rec, err := k.records.load(t.engine, t.main)
	if err != nil {
		return Plan{}, err
	}
	files, err := k.written(ctx, t, rec)
	if err != nil {
		return Plan{}, err
	}
	for _, f := range rec.Files {
		if !slices.ContainsFunc(files, func(have file) bool { return have.path == f.Path }) {
			text, err := k.host.read(f.Path)
			if err != nil {
				return Plan{}, err
			}
			files = append(files, file{path: f.Path, text: text})
		}
	}
	before, err := originals(t.withPathsOf(rec), files, rec)
	if err != nil {
		return Plan{}, err
	}
	loaded := slices.DeleteFunc(slices.Clone(before), func(f file) bool { return f.text == nil && f.path != t.main })
	e, err := t.edit(loaded, k.config.Desired())
	if err != nil {
		return Plan{}, err
	}
	return k.plan(t, files, before, e, rec)
}

// originals returns the files without the changes of this package.
func originals(t target, files []file, rec record) ([]file, error) {
	out := slices.Clone(files)
	for i, f := range files {
		var err error
		if out[i].text, err = original(t, f, rec.find(f.path)); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	return out, nil
}

// original returns a file without the changes of this package. It returns nil if the file did
// not exist before and has no other content.
func original(t target, f file, rec *fileRecord) ([]byte, error) {
	if rec != nil {
		if text, ok := rec.original(f.text); ok {
			return text, nil
		}
	}
	if f.text == nil {
		return nil, nil //nolint:nilnil // the file does not exist
	}
	if t.engine == Docker {
		if rec == nil || blank(f.text) {
			return f.text, nil
		}
		text, err := stripDocker(f.text, rec.Before, rec.Wrote[0])
		if err == nil && !rec.Existed && sameJSON(text, []byte("{}")) {
			text = nil
		}
		return text, err
	}
	text, err := rawtoml.Strip(f.text)
	imported := rec == nil && len(text) != len(f.text) || rec != nil && !bytes.Contains(rec.Before, []byte(importPattern(t.dropIn)))
	if err == nil && f.path == t.main && t.dropIn != "" && imported {
		text, err = rawtoml.RemoveFromList(text, importsIn(text), importPattern(t.dropIn))
	}
	created := rec != nil && !rec.Existed || rec == nil && len(text) != len(f.text)
	if err == nil && created && blank(text) {
		text = nil
	}
	return text, err
}

// plan compares the files with the result of the edit.
func (k *Keeper) plan(t target, files, before []file, e edit, rec record) (Plan, error) {
	p := Plan{Engine: t.engine, Notes: e.notes, LowLevel: e.lowLevel, target: t, read: files}
	p.record = record{Engine: t.engine, Config: t.main, DropIn: t.dropIn, Written: rec.Written}
	// If the edit no longer contains a file of the previous record, the file gets its original
	// content again.
	for _, f := range rec.Files {
		if !slices.ContainsFunc(e.files, func(x file) bool { return x.path == f.Path }) {
			e.addFile(f.Path, textOf(before, f.Path))
		}
	}
	for _, want := range e.files {
		now, old := textOf(files, want.path), textOf(before, want.path)
		if sameMeaning(t.engine, now, want.text) {
			want.text = now
		}
		if !sameContent(now, want.text) {
			p.Changes = append(p.Changes, Change{Path: want.path, Before: now, After: want.text})
		}
		if sameContent(want.text, old) {
			continue
		}
		fr, err := k.recordOf(rec.find(want.path), want, now, old)
		if err != nil {
			return Plan{}, err
		}
		p.record.Files = append(p.record.Files, fr)
	}
	return p, nil
}

// recordOf returns the record of a file. The parameter want is the desired file, now is its present
// content, old is its original content, and last is its previous record or nil.
func (k *Keeper) recordOf(last *fileRecord, want file, now, old []byte) (fileRecord, error) {
	fr := fileRecord{Path: want.path, Existed: old != nil, Before: old, Wrote: [][]byte{want.text}}
	if last != nil {
		fr.Folder = last.Folder
		if sameContent(last.Wrote[0], want.text) && bytes.Equal(last.Before, old) && last.Existed == fr.Existed {
			return *last, nil
		}
		if _, ok := last.original(now); ok && !sameContent(now, want.text) {
			// If the process is killed before the write, the file still has this content.
			fr.Wrote = append(fr.Wrote, now)
		}
	}
	if fr.Folder == "" && now == nil {
		var err error
		if fr.Folder, err = k.host.missingFolder(want.path); err != nil {
			return fileRecord{}, err
		}
	}
	return fr, nil
}

// withPathsOf returns the target with the paths of a record.
func (t target) withPathsOf(rec record) target {
	if len(rec.Files) > 0 {
		t.main, t.dropIn = rec.Config, rec.DropIn
	}
	return t
}

// sameMeaning reports whether an engine reads the same settings from two texts. A file that differs only
// in its form was edited by a person, and is not written again.
func sameMeaning(engine Name, a, b []byte) bool {
	if a == nil || b == nil {
		return false
	}
	if engine == Docker {
		return sameJSON(a, b)
	}
	return sameTOML(a, b)
}

// Watch returns the files and folders whose changes require another Reconcile, as paths
// that this process sees.
func (k *Keeper) Watch(ctx context.Context) ([]string, error) {
	t, err := k.locate(ctx)
	if err != nil {
		return nil, err
	}
	files, err := k.files(t)
	var out []string
	for _, f := range files {
		real, err := k.host.path(f.path)
		if err != nil {
			return nil, err
		}
		out = append(out, real)
	}
	return out, err
}
