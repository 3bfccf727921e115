package configfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// labelFile is a file below the run root with the last known value of the label that selects the
// config. An agent that starts without an API server uses it. The agents of a node share the file.
type labelFile struct {
	// path is empty for an agent without a run root.
	path string
}

// newLabelFile returns the file for a label. The key of a label has one slash at most.
func newLabelFile(runRoot, label string) labelFile {
	if runRoot == "" {
		return labelFile{}
	}
	return labelFile{path: filepath.Join(runRoot, "node-labels", strings.ReplaceAll(label, "/", "_"))}
}

// read returns the last known value, which is empty if the Node did not have the label, and whether
// the value is known. A file that does not consist of one line is damaged and is ignored.
func (k labelFile) read() (value string, known bool) {
	if k.path == "" {
		return "", false
	}
	data, err := Read(k.path)
	value, whole := strings.CutSuffix(string(data), "\n")
	if err != nil || !whole || strings.Contains(value, "\n") {
		return "", false
	}
	return value, true
}

// write replaces the last known value.
func (k labelFile) write(value string) error {
	if k.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o755); err != nil {
		return fmt.Errorf("store the node's label: %w", err)
	}
	if err := hostfs.RemoveLeftovers(k.path); err != nil {
		return fmt.Errorf("store the node's label: %w", err)
	}
	if _, err := hostfs.WriteIfChanged(k.path, []byte(value+"\n"), 0o644); err != nil {
		return fmt.Errorf("store the node's label: %w", err)
	}
	return nil
}
