package toolconfig

import (
	"bytes"
	"slices"

	"outrigger.dev/pkg/hostfs"
)

// maxLines limits the number of lines of a value in a file that Parse rejects.
const maxLines = 100

// Readable returns the values of the file at path that are valid. Other keys have their defaults. It
// is for programs that must work with a file that Load rejects.
func Readable(path string) *Config {
	data, _ := hostfs.ReadFile(path, maxSize) // without a file, all keys have their defaults
	return readable(data)
}

func readable(data []byte) *Config {
	r := newReader()
	var table []byte
	for lines := slices.Collect(bytes.Lines(data)); len(lines) > 0; {
		n := 1
		for ; n <= min(len(lines), maxLines); n++ {
			text := bytes.Join(lines[:n], nil)
			if walk(slices.Concat(table, text), r.entry) != nil {
				continue
			}
			if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
				table = append(text, '\n')
			}
			break
		}
		if n > min(len(lines), maxLines) {
			n = 1 // no expression begins in this line
		}
		lines = lines[n:]
	}
	if len(r.config.Runtime.Runtimes) == 0 {
		r.config.Runtime.Runtimes = Default().Runtime.Runtimes
	}
	return r.config
}
