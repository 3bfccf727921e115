package payload

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	manifestName = ".manifest"
	maxManifest  = 8 << 20
	// headLines is the number of lines before the files: description, version, modules and folders.
	// NVIDIA's installer also counts lines.
	headLines = 8
)

// manifest is the content of the file .manifest in NVIDIA's archives.
type manifest struct {
	version string
	entries []entry
	// unknown lists types that are newer than this program.
	unknown []string
}

// entry is a file of a manifest: its path in the archive, and its place.
type entry struct {
	file string
	kind string
	// path is the folder below the folder of the kind, for kinds with a path.
	path string
	// target is the target of a link.
	target string
	mode   fs.FileMode
	// compat32 is set for 32-bit libraries.
	compat32 bool
}

// parseManifest parses a manifest. A line has a file, a mode and a type. Depending on the type, an
// architecture, a path, and the target of a link follow. Words such as MODULE:nvml group files.
func parseManifest(data []byte) (manifest, error) {
	var m manifest
	kinds := kinds()
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(make([]byte, 0, 4096), 64<<10)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 2 {
			m.version = strings.TrimSpace(line)
		}
		if n <= headLines {
			continue
		}
		if line == "" {
			break
		}
		e, err := parseEntry(strings.Fields(line), kinds)
		if err != nil {
			return manifest{}, fmt.Errorf("line %d: %w", n, err)
		}
		if e.kind == "" {
			if kind := strings.Fields(line)[2]; !slices.Contains(m.unknown, kind) {
				m.unknown = append(m.unknown, kind)
			}
			continue
		}
		m.entries = append(m.entries, e)
	}
	if err := lines.Err(); err != nil {
		return manifest{}, err
	}
	if !validVersion(m.version) {
		return manifest{}, fmt.Errorf("line 2: %q is not a driver version", m.version)
	}
	return m, nil
}

// parseEntry parses the words of a line. If the type is unknown, the entry has no kind.
func parseEntry(words []string, kinds map[string]kind) (entry, error) {
	if len(words) < 3 {
		return entry{}, fmt.Errorf("it has %d words, but needs at least a file, a mode and a type", len(words))
	}
	mode, err := strconv.ParseUint(words[1], 8, 32)
	if err != nil {
		return entry{}, fmt.Errorf("%q is not a file mode", words[1])
	}
	k, known := kinds[words[2]]
	if !known {
		return entry{}, nil
	}
	e := entry{file: path.Clean(words[0]), kind: words[2], mode: fs.FileMode(mode) & fs.ModePerm}
	var rest []string
	for _, word := range words[3:] {
		depth, inherits := strings.CutPrefix(word, "INHERIT_PATH_DEPTH:")
		switch {
		case word == "COMPAT32":
			e.compat32 = true
		case inherits:
			if e.path, err = inherit(e.file, depth); err != nil {
				return entry{}, err
			}
		case slices.Contains([]string{"NATIVE", "CLASSIC", "NEW", "GLVND", "NON_GLVND"}, word), strings.HasPrefix(word, "MODULE:"):
		default:
			rest = append(rest, word)
		}
	}
	if k.hasPath && len(rest) > 0 {
		e.path, rest = rest[0], rest[1:]
	}
	if k.isLink {
		if len(rest) == 0 {
			return entry{}, fmt.Errorf("the link %s has no target", e.file)
		}
		e.target = rest[0]
	}
	return e, nil
}

// inherit returns the folder of a file without its first elements, whose number is depth.
func inherit(file, depth string) (string, error) {
	n, err := strconv.Atoi(depth)
	parts := strings.Split(path.Dir(file), "/")
	if err != nil || n < 0 || n > len(parts) {
		return "", fmt.Errorf("INHERIT_PATH_DEPTH:%s is more than %s has", depth, file)
	}
	return path.Join(parts[n:]...), nil
}

// validVersion reports whether a text is a driver version: numbers with dots. Versions are used in names
// of files.
func validVersion(v string) bool {
	parts := strings.Split(v, ".")
	return len(v) <= 32 && len(parts) >= 2 && !slices.ContainsFunc(parts, func(p string) bool {
		return p == "" || strings.Trim(p, "0123456789") != ""
	})
}
