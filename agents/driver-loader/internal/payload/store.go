package payload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// The names in the folder of a payload, and their limits.
const (
	recordName  = "payload.json"
	listingName = "files"
	rootName    = "root"
	sourceName  = "source"
	modulesName = "precompiled"
	maxRecord   = 1 << 20
	maxListing  = 64 << 20
)

// Store stores the payloads of a node, in the folder drivers of the agent's store.
type Store struct {
	// Dir is the agent's store, such as /var/lib/outrigger/driver.
	Dir string
	// Machine is the node's architecture, as uname -m prints it. Payloads for other architectures are
	// rejected.
	Machine string
	// Version is the version to import from a driver image that has several drivers.
	Version string
	// MaxBytes is the largest size of a payload. Default: 16 GiB.
	MaxBytes int64
	// Progress is called from the goroutine of Import. It may be nil.
	Progress func(progress.Progress)
}

// record is the content of payload.json.
type record struct {
	Payload
	// Order is the number of the last import of the payload, counted from 1. The payload with the largest number was
	// imported last.
	Order int `json:"order"`
	// Stamp identifies the source of the last import, so that an unchanged source is not read again.
	Stamp string `json:"stamp"`
	// Unknown lists the types in the manifest that this program does not know.
	Unknown []string `json:"unknown,omitempty"`
}

func (s Store) drivers() string { return filepath.Join(s.Dir, "drivers") }

// List returns the payloads in the store, the last imported first. It skips payloads that cannot be read, and
// returns their errors.
func (s Store) List() ([]Payload, error) {
	records, err := s.records()
	payloads := make([]Payload, 0, len(records))
	for _, r := range records {
		payloads = append(payloads, r.Payload)
	}
	return payloads, err
}

func (s Store) records() ([]record, error) {
	entries, err := os.ReadDir(s.drivers())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var records []record
	var errs []error
	for _, e := range entries {
		if !staging.Complete(e.Name()) {
			continue
		}
		r, err := read(filepath.Join(s.drivers(), e.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b record) int { return cmp.Or(b.Order-a.Order, strings.Compare(a.name(), b.name())) })
	return records, errors.Join(errs...)
}

// read returns the record of the payload in a folder.
func read(dir string) (record, error) {
	r, err := hostfs.ReadJSON[record](filepath.Join(dir, recordName), maxRecord)
	if err == nil && filepath.Base(dir) != r.name() {
		err = fmt.Errorf("it describes %s", r.name())
	}
	if err != nil {
		return record{}, problem(cause.PayloadCorrupt, dir, "remove the folder, and import the driver again", "%s cannot be read: %v", recordName, err)
	}
	r.Dir = dir
	r.locate()
	return r, nil
}

// name returns the name of the payload's folder.
func (p Payload) name() string {
	return fmt.Sprintf("%s-%.16s", p.Version, p.Digest)
}

// locate sets Root, Sources and Precompiled, for the folders that exist.
func (p *Payload) locate() {
	if isDir(filepath.Join(p.Dir, rootName)) {
		p.Root = filepath.Join(p.Dir, rootName)
	}
	p.Sources = map[Flavour]string{}
	for _, f := range []Flavour{Open, Proprietary} {
		if dir := filepath.Join(p.Dir, sourceName, string(f)); isDir(dir) {
			p.Sources[f] = dir
		}
	}
	p.locateModules()
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// complete returns an error unless all files exist with their sizes. It reads no content.
func (p Payload) complete() error {
	files, err := p.listing()
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := f.stat(p.Dir); err != nil {
			return problem(cause.PayloadCorrupt, p.Dir, "import the driver again", "%s: %v", f.path, err)
		}
	}
	return nil
}

// listing returns the list of the payload's files, after it has compared the digest.
func (p Payload) listing() ([]file, error) {
	data, err := hostfs.ReadFile(filepath.Join(p.Dir, listingName), maxListing)
	if err == nil && digest(data) != p.Digest {
		err = errors.New("the digest of its list of files does not match")
	}
	if err != nil {
		return nil, problem(cause.PayloadCorrupt, p.Dir, "import the driver again", "%v", err)
	}
	var files []file
	for line := range strings.Lines(string(data)) {
		f, err := parseFile(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, problem(cause.PayloadCorrupt, p.Dir, "import the driver again", "%v", err)
		}
		files = append(files, f)
	}
	return files, nil
}
