package publish

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// format returns labels as sorted lines "key=value", the format of Node Feature
// Discovery's local features.
func format(labels map[string]string) []byte {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(key + "=" + labels[key] + "\n")
	}
	return b.Bytes()
}

// parse parses the lines that format writes, and skips other lines.
func parse(data []byte) map[string]string {
	labels := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			labels[key] = value
		}
	}
	return labels
}

// File publishes labels in a file in the features.d folder of Node Feature Discovery. The worker of
// Node Feature Discovery labels the Node with them. The file stays when the agent ends, because
// labels that disappear at each restart would move pods.
type File struct {
	Stamper
	Path string
}

var _ Output = File{}

// Remove removes the file. It returns nil if there is none.
func (f File) Remove() error {
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove features file: %w", err)
	}
	return nil
}

// maxFile is the largest size of a file that Node Feature Discovery reads, in bytes.
const maxFile = 64 << 10

// Put replaces the file as a whole. It only writes regular files, because the path may be a
// device.
func (f File) Put(_ context.Context, labels map[string]string) error {
	there, err := f.read()
	if err != nil {
		return err
	}
	stamped, _ := f.stamp(labels, parse(there))
	if _, err := hostfs.WriteIfChanged(f.Path, format(stamped), 0o644); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write features file: %w (is the folder of Node Feature Discovery mounted?)", err)
		}
		return fmt.Errorf("write features file: %w", err)
	}
	return nil
}

// read returns the content of the file, or nil if it does not exist. It does not follow a link,
// because Put replaces the link.
func (f File) read() ([]byte, error) {
	if fi, err := os.Lstat(f.Path); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil, nil //nolint:nilerr // Put finds out whether a file can be written there
	}
	data, err := hostfs.ReadFile(f.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read features file: %w", err)
	}
	return data, nil
}

// Text prints labels whenever they change.
type Text struct {
	Stamper
	To io.Writer

	last map[string]string
}

var _ Output = (*Text)(nil)

// Put prints the labels if they have changed.
func (p *Text) Put(_ context.Context, labels map[string]string) error {
	stamped, differ := p.stamp(labels, p.last)
	if !differ && p.last != nil {
		return nil
	}
	w := bufio.NewWriter(p.To)
	_, _ = w.Write(format(stamped)) // Flush returns the error
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print labels: %w", err)
	}
	p.last = stamped
	return nil
}
