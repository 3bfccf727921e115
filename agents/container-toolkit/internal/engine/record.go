package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// maxFile limits the size of a config file that is read, in bytes.
const maxFile = 4 << 20

// recordFolder is the default folder of the records on the host.
const recordFolder = "/var/lib/nvidia-container-toolkit/engine"

// record is the data that Undo needs. It is on disk before the files change.
type record struct {
	// Version is the version of the format.
	Version int    `json:"version"`
	Engine  Name   `json:"engine"`
	Config  string `json:"config"`
	// DropIn is the file that the config imports; "" for none.
	DropIn string `json:"dropIn,omitempty"`
	// Files are in the order of writing.
	Files []fileRecord `json:"files"`
	// Written is the time when the files were last written.
	Written moment `json:"written"`
}

// fileRecord describes a file before the changes, and the written content.
type fileRecord struct {
	Path    string `json:"path"`
	Existed bool   `json:"existed"`
	Before  []byte `json:"before,omitempty"`
	// Wrote has the content that was written last, and earlier content that may still be
	// there if a process was killed.
	Wrote [][]byte `json:"wrote"`
	// Folder is the topmost folder that was created for the file.
	Folder string `json:"folder,omitempty"`
}

// moment is a point in time that does not depend on the wall clock.
type moment struct {
	// Boot is the ID of the boot, Nanoseconds the time since that boot.
	Boot        string `json:"boot"`
	Nanoseconds int64  `json:"nanoseconds"`
}

// find returns the record of the file at path, or nil.
func (r record) find(path string) *fileRecord {
	for i := range r.Files {
		if r.Files[i].Path == path {
			return &r.Files[i]
		}
	}
	return nil
}

// original returns the original content of a file. It returns false if the present content, the
// parameter now, is not in the record.
func (f *fileRecord) original(now []byte) ([]byte, bool) {
	before := f.Before
	if f.Existed && before == nil {
		before = []byte{}
	}
	if sameContent(now, before) || slices.ContainsFunc(f.Wrote, func(w []byte) bool { return sameContent(now, w) }) {
		return before, true
	}
	return nil, false
}

// sameContent reports whether two files are equal. A nil file does not exist.
func sameContent(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// records is the folder of the records, as this process sees it.
type records struct{ dir string }

func (c Config) records() records {
	return records{dir: filepath.Join(cmp.Or(c.HostRoot, "/"), cmp.Or(c.Records, recordFolder))}
}

// path returns the path of the record for a config file.
func (r records) path(engine Name, config string) string {
	return filepath.Join(r.dir, string(engine)+url.PathEscape(config)+".json")
}

// load returns the record for a config file, or an empty record if there is none.
func (r records) load(engine Name, config string) (record, error) {
	return readRecord(r.path(engine, config))
}

func readRecord(path string) (record, error) {
	var rec record
	data, err := hostfs.ReadFile(path, 4*maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err == nil && rec.Version != 1 {
		err = fmt.Errorf("it has version %d: use the version of nvidia-container-toolkit that wrote it", rec.Version)
	}
	if err != nil {
		return rec, fmt.Errorf("read the record of changes %s: %w", path, err)
	}
	return rec, nil
}

// all returns the records of an engine.
func (r records) all(engine Name) ([]record, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []record
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), string(engine)+"%2F") || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		rec, err := readRecord(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// Recorded returns the engines of a host whose configs were changed and not reverted yet. It
// uses only the folders of the Config.
func Recorded(c Config) ([]Name, error) {
	r := c.records()
	var out []Name
	for _, name := range allNames() {
		recs, err := r.all(name)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

// save writes a record if it differs from the record on disk. It removes an empty record.
func (r records) save(rec record) error {
	path := r.path(rec.Engine, rec.Config)
	if len(rec.Files) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = hostfs.RemoveLeftovers(path) // leftovers do no harm
		return nil
	}
	rec.Version = 1
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	// The recorded files may contain secrets, such as passwords for registries.
	_, err = hostfs.WriteIfChanged(path, append(data, '\n'), 0o600)
	return err
}
