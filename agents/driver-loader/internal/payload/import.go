package payload

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// Import copies a driver into the store, and returns the payload. It accepts
//   - a .run archive, which it reads and does not run,
//   - a folder with the content of an archive, as "--extract-only" creates it,
//   - the root of a driver image, with an archive or its content in the folder drivers,
//   - the root of a driver image, with Debian packages in the folder usr/local/repos,
//   - a driver root, with an installed driver,
//   - NVIDIA's source tree, or its folder kernel-open: a payload without a driver root.
//
// It copies nothing if the source was imported before and has not changed. Errors that an operator can fix
// are Causes. An error leaves the store unchanged.
func (s Store) Import(ctx context.Context, from string) (Payload, error) {
	src, err := recognise(from, s.Machine, s.Version)
	if err != nil {
		return Payload{}, err
	}
	if p, found := s.imported(src.stamp); found {
		return p, nil
	}
	stage, err := staging.New(s.drivers())
	if err != nil {
		return Payload{}, err
	}
	p, err := s.importTo(ctx, stage, src)
	return p, errors.Join(err, stage.Close())
}

// imported returns the payload that was imported from the same source.
func (s Store) imported(stamp string) (Payload, bool) {
	records, err := s.records()
	if err != nil && len(records) == 0 {
		return Payload{}, false
	}
	for i, r := range records {
		if r.Stamp == stamp && r.complete() == nil {
			// The last imported payload does not need a new number.
			return r.Payload, i == 0 || s.importAgain(&r, stamp) == nil
		}
	}
	return Payload{}, false
}

func (s Store) importTo(ctx context.Context, stage *staging.Stage, src source) (Payload, error) {
	w, err := newWriter(stage.Dir, src.path, cmp.Or(s.MaxBytes, defaultSize))
	if err != nil {
		return Payload{}, err
	}
	report := progress.Since(time.Now(), s.Progress)
	f := filler{ctx: ctx, writer: w, src: src, machine: s.Machine, meter: &meter{
		Progress: progress.Progress{Step: StepCopy, Total: int(src.size), Bytes: true}, report: report,
	}}
	f.meter.read(0)
	r, err := f.fill()
	if err = errors.Join(err, w.Close()); err != nil {
		return Payload{}, err
	}
	r.Imported, r.Order, r.Origin, r.Stamp = time.Now().UTC().Round(0), s.nextOrder(), src.path, src.stamp
	r.Dir = stage.Dir
	report(progress.Progress{Step: StepSync})
	if err := r.seal(ctx); err != nil {
		return Payload{}, staging.Explain(stage.Dir, err)
	}
	path := filepath.Join(s.drivers(), r.name())
	if old, err := read(path); err == nil && old.complete() == nil {
		// The same content was imported from another path. Keep the old folder, because it may be mounted.
		err := s.importAgain(&old, src.stamp)
		return old.Payload, err
	}
	if r.Dir, err = stage.Commit(r.name()); err != nil {
		return Payload{}, err
	}
	r.Root = ""
	r.locate()
	return r.Payload, nil
}

// seal writes the list of files and the record.
func (r *record) seal(ctx context.Context) error {
	files, err := list(ctx, r.Dir)
	if err != nil {
		return err
	}
	listing := lines(files)
	r.Digest = digest(listing)
	if err := os.WriteFile(filepath.Join(r.Dir, listingName), listing, 0o644); err != nil { //nolint:gosec // as the rest of the store
		return err
	}
	return r.write()
}

func (r *record) write() error {
	return hostfs.WriteJSON(filepath.Join(r.Dir, recordName), r, 0o644)
}

// importAgain records a new import of a complete payload, so that it becomes the last imported one.
func (s Store) importAgain(r *record, stamp string) error {
	r.Imported, r.Order, r.Stamp = time.Now().UTC().Round(0), s.nextOrder(), stamp
	return r.write()
}

// nextOrder returns the number of the next import. The clock of a node can be wrong, so that times do not order
// imports.
func (s Store) nextOrder() int {
	// Payloads that cannot be read are never loaded, so that their numbers do not matter.
	records, _ := s.records()
	if len(records) == 0 {
		return 1
	}
	return records[0].Order + 1
}

// filler fills the folder of a payload from a source.
type filler struct {
	ctx context.Context //nolint:containedctx // a filler exists for one import
	*writer
	src     source
	machine string
	meter   *meter
}

func (f filler) fill() (record, error) {
	switch f.src.form {
	case runArchive:
		return f.fromArchive()
	case extracted:
		return f.fromFolder(f.src.path, "", f.src.path)
	case sourceTree:
		return f.fromTree()
	case preparedRoot:
		return f.fromRoot()
	case packages:
		return f.fromPackages()
	}
	return record{}, fmt.Errorf("import %s: %q is not a known form of a driver", f.name, f.src.form)
}

// unpacked is the folder with the content of an archive, until it is in its final place.
const unpacked = "unpacked"

func (f filler) fromArchive() (record, error) {
	in, err := hostfs.Open(f.src.path)
	if err != nil {
		return record{}, err
	}
	defer in.Close()
	a, err := openArchive(f.src.path, f.reader(in))
	if err != nil {
		return record{}, err
	}
	if a.machine != f.machine || a.system != "Linux" {
		return record{}, problem(cause.WrongArchitecture, f.src.path, "use the driver for Linux-"+f.machine, "is a driver for %s-%s; this node is Linux-%s", a.system, a.machine, f.machine)
	}
	if err := f.root.Mkdir(unpacked, 0o755); err != nil {
		return record{}, f.explain(err)
	}
	err = a.extract(func(h *tar.Header, content io.Reader) error {
		h.Name = unpacked + "/" + h.Name
		if h.Typeflag == tar.TypeLink {
			h.Linkname = unpacked + "/" + h.Linkname
		}
		return f.extract(h, content)
	})
	if err != nil {
		return record{}, err
	}
	r, err := f.fromFolder(filepath.Join(f.root.Name(), unpacked), unpacked, f.src.path, a.folder)
	if err != nil {
		return record{}, err
	}
	return r, f.explain(f.root.RemoveAll(unpacked))
}
