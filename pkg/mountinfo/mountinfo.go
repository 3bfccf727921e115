// Package mountinfo reads the mounts that a process sees. It needs no C and no library from outside
// this module, so that programs that start once for each container can use it.
package mountinfo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"outrigger.dev/pkg/text"
)

// Self is the file with the mounts of the calling thread. It is correct even for a thread with a
// separate mount namespace.
const Self = "/proc/thread-self/mountinfo"

// maxSize is the largest size of a file, in bytes. The kernel's limit of mounts in a namespace is
// 100,000 (fs.mount-max), and a mount takes about 200 bytes.
const maxSize = 64 << 20

// Mount is a line of a mountinfo file (proc_pid_mountinfo(5)).
type Mount struct {
	// ID is the number of the mount, the mnt_id of /proc/PID/fdinfo.
	ID int
	// Root is the path of the mounted folder within its filesystem.
	Root string
	// Point is the path of the mount point, relative to the root folder of the process.
	Point string
	// Shared is set if other mount namespaces see mounts below this mount.
	Shared bool
	// Type is the kind of the filesystem, for example "cgroup2".
	Type string
	// Super has the options of the filesystem, separated by commas.
	Super string
}

// Read returns the mounts of a mountinfo file in the kernel's order: a mount comes after a mount
// that it hides. It rejects a file of more than 64 MiB.
func Read(path string) ([]Mount, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("read mounts: %s has more than %d bytes, more than the kernel writes for 100,000 mounts", path, maxSize)
	}
	mounts, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read mounts of %s: %w", path, err)
	}
	return mounts, nil
}

// Parse returns the mounts of the content of a mountinfo file. The error names the first line in a
// form that the kernel does not write.
func Parse(data []byte) ([]Mount, error) {
	var mounts []Mount
	for line := range bytes.Lines(data) {
		m, ok := parse(strings.TrimSuffix(string(line), "\n"))
		if !ok {
			return nil, fmt.Errorf("line %d is not one of proc_pid_mountinfo(5): %s", len(mounts)+1, text.Printable(text.Cut(string(line), 200)))
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// parse parses a line: ID parent major:minor root point options [optional…] - type source super.
// One space separates fields, because a source can be empty. Only the last field can contain
// spaces.
func parse(line string) (Mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields, filesystem := strings.Split(before, " "), strings.SplitN(after, " ", 3)
	if !ok || len(fields) < 6 || len(filesystem) < 3 {
		return Mount{}, false
	}
	id, err := strconv.Atoi(fields[0])
	if err != nil {
		return Mount{}, false
	}
	m := Mount{ID: id, Root: unescape(fields[3]), Point: unescape(fields[4]), Type: filesystem[0], Super: filesystem[2]}
	for _, field := range fields[6:] {
		m.Shared = m.Shared || strings.HasPrefix(field, "shared:")
	}
	return m, true
}

// unescape decodes a path. The kernel writes spaces and some other characters as a
// backslash and three octal digits.
func unescape(path string) string {
	before, rest, escaped := strings.Cut(path, `\`)
	if !escaped {
		return path
	}
	var out strings.Builder
	for ; escaped; before, rest, escaped = strings.Cut(rest, `\`) {
		out.WriteString(before)
		if len(rest) >= 3 {
			if char, err := strconv.ParseUint(rest[:3], 8, 8); err == nil {
				out.WriteByte(byte(char))
				rest = rest[3:]
				continue
			}
		}
		out.WriteByte('\\')
	}
	out.WriteString(before)
	return out.String()
}

// Of returns the ID of the mount that contains an open file. The file may be opened only for its
// path (O_PATH).
func Of(f *os.File) (int, error) {
	data, err := os.ReadFile("/proc/thread-self/fdinfo/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return 0, fmt.Errorf("find mount of %s: %w", f.Name(), err)
	}
	for line := range strings.Lines(string(data)) {
		if number, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(number))
		}
	}
	return 0, fmt.Errorf("find mount of %s: its fdinfo has no mnt_id, which Linux has since 3.15", f.Name())
}

// ByID returns a mount of the calling thread by its ID.
func ByID(id int) (Mount, error) {
	mounts, err := Read(Self)
	if err != nil {
		return Mount{}, err
	}
	for _, m := range mounts {
		if m.ID == id {
			return m, nil
		}
	}
	return Mount{}, fmt.Errorf("find mount %d: %s does not list it: it is in another mount namespace, or was unmounted", id, Self)
}
