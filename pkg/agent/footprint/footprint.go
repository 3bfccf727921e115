// Package footprint keeps the resident memory of an idle agent small.
package footprint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Trim unmaps the pages of the program and its libraries that this process has touched.
// Call it once an agent has started: most of the code that ran until then never runs
// again, and the kernel maps 64 KiB around each page that is touched. The resident set is
// then what the agent uses while idle. The pages stay in the page cache, from which they
// return at the next access, and which the kernel may use for others first: pages that no
// process maps are the first that it reclaims.
//
// Trim only touches read-only mappings of files without a modified page, so nothing but
// the resident set changes. Without procfs it does nothing and returns an error.
func Trim() error {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("trim resident memory: %w", err)
	}
	defer f.Close()
	all, err := clean(f)
	if err != nil {
		return fmt.Errorf("trim resident memory: %w", err)
	}
	for _, m := range all {
		// It is a system call by hand because unix.Madvise takes a slice.
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("trim resident memory at %x: %w", m.start, errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// clean returns the private read-only mappings of files that have no modified page. It
// reads the format of /proc/PID/smaps, see proc_pid_smaps(5).
func clean(smaps io.Reader) ([]mapping, error) {
	var out []mapping
	var now mapping
	var readOnly bool
	for lines := bufio.NewScanner(smaps); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		line := lines.Bytes()
		switch {
		case len(line) == 0:
		case line[0] >= 'A' && line[0] <= 'Z': // a property of the mapping
			if rest, ok := bytes.CutPrefix(line, []byte("Anonymous:")); ok && readOnly && string(bytes.TrimSpace(rest)) == "0 kB" {
				out = append(out, now)
			}
		default:
			var err error
			if now, readOnly, err = header(line); err != nil {
				return nil, err
			}
		}
	}
}

// header parses the first line of a mapping, "start-end perms offset device inode path".
// It reports whether the mapping is a private read-only one of a file.
func header(line []byte) (m mapping, readOnly bool, err error) {
	fields := bytes.Fields(line)
	if len(fields) < 5 {
		return m, false, fmt.Errorf("parse smaps: line %q", line)
	}
	from, to, _ := bytes.Cut(fields[0], []byte("-"))
	start, err1 := strconv.ParseUint(string(from), 16, 64)
	end, err2 := strconv.ParseUint(string(to), 16, 64)
	if err := errors.Join(err1, err2); err != nil {
		return m, false, fmt.Errorf("parse smaps: %w", err)
	}
	perms := string(fields[1])
	file := len(fields) > 5 && fields[5][0] == '/'
	return mapping{start: uintptr(start), end: uintptr(end)}, file && (perms == "r-xp" || perms == "r--p"), nil
}
