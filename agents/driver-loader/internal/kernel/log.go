package kernel

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/text"
)

// maxRecords is the largest number of log records that are read after a failure.
const maxRecords = 2000

// kernelLog reads the records that the kernel logs after openLog. It uses a file descriptor, because
// an *os.File would block at the end of the log.
type kernelLog struct{ fd int }

// noLog is the descriptor of a log that cannot be read.
const noLog = -1

// openLog opens the log at its end. If the log cannot be read, it has no records.
func openLog(root Root) kernelLog {
	fd, err := unix.Open(root.dev("kmsg"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return kernelLog{noLog}
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		kernelLog{fd}.close()
		return kernelLog{noLog}
	}
	return kernelLog{fd}
}

func (l kernelLog) close() {
	if l.fd != noLog {
		_ = unix.Close(l.fd)
	}
}

// record is a record of the log.
type record struct {
	// thread is the thread that wrote the record, 0 if it is not known.
	thread int
	text   string
}

// since returns the records since the log was opened.
func (l kernelLog) since() []record {
	if l.fd == noLog {
		return nil
	}
	var out []record
	// The kernel limits records to this size.
	buffer := make([]byte, 8<<10)
	for len(out) < maxRecords {
		n, err := unix.Read(l.fd, buffer)
		switch {
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR):
			// Records were overwritten before they were read.
			continue
		case err != nil || n <= 0:
			return out
		}
		out = append(out, parseRecord(string(buffer[:n])))
	}
	return out
}

// parseRecord parses "priority,sequence,time,flags[,caller=T<thread>];text" and the lines that follow
// (Documentation/ABI/testing/dev-kmsg in the kernel's sources).
func parseRecord(raw string) record {
	prefix, rest, _ := strings.Cut(raw, ";")
	message, _, _ := strings.Cut(rest, "\n")
	r := record{text: text.Printable(message)}
	for field := range strings.SplitSeq(prefix, ",") {
		if thread, ok := strings.CutPrefix(field, "caller=T"); ok {
			r.thread, _ = strconv.Atoi(thread)
		}
	}
	return r
}

// maxLines is the number of records that explanation returns.
const maxLines = 8

// explanation returns the records that explain why a module was not loaded, separated by semicolons, or "".
// If a record of this module or thread states the kernel's cause, explanation returns only this record.
// Otherwise, it returns the last records of the thread that loaded the module, and the last records that
// mention the module: the last record of NVIDIA's module is only a summary.
func explanation(records []record, name string, thread int) string {
	var lines []string
	for _, r := range records {
		if strings.Contains(r.text, "taints kernel") || strings.Contains(r.text, "tainting kernel") {
			continue
		}
		if r.thread != thread && !mentions(r.text, name) {
			continue
		}
		if statesCause(r.text) {
			return r.text
		}
		lines = append(lines, r.text)
	}
	return strings.Join(lines[max(0, len(lines)-maxLines):], "; ")
}

// mentions reports whether a line mentions a module. NVIDIA's modules log with the prefix NVRM.
func mentions(line, name string) bool {
	names := []string{name, strings.ReplaceAll(name, "_", "-")}
	if strings.HasPrefix(name, "nvidia") {
		names = append(names, "NVRM")
	}
	return slices.ContainsFunc(names, func(n string) bool { return containsWord(line, n) })
}

// containsWord reports whether a line contains a word that is not a part of a longer name.
func containsWord(line, word string) bool {
	inName := func(c byte) bool {
		return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for from := 0; ; {
		at := strings.Index(line[from:], word)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(word)
		if (start == 0 || !inName(line[start-1])) && (end == len(line) || !inName(line[end])) {
			return true
		}
		from = end
	}
}

// statesCause reports whether the kernel's module loader states in a line why it
// rejects a module.
func statesCause(line string) bool {
	return slices.ContainsFunc([]string{
		"Unknown symbol", "disagrees about version", "no symbol version", "version magic", "for parameter",
		"Invalid ELF", "Only ET_REL", "invalid section", "exports duplicate symbol", "module signature", "Loading of ",
		"Lockdown:", "gave up waiting", "Section misalignment", "does not import it",
	}, func(part string) bool { return strings.Contains(line, part) })
}
