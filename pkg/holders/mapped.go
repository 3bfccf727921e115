package holders

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// mapped adds the devices that the process has in its memory: they stay in use when the
// process has closed them.
func (p process) mapped(held map[string]bool) error {
	if p.blocked() {
		return nil
	}
	f, err := hostfs.Open(filepath.Join(p.dir, "maps"))
	if processEnded(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxFile)
	for lines.Scan() {
		// Files are looked at once each: 7f12-7f13 rw-s 00000000 00:05 123    /dev/nvidia0
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasSuffix(fields[1], "s") || !strings.HasPrefix(fields[5], "/") || seen[fields[3]+" "+fields[4]] {
			continue
		}
		seen[fields[3]+" "+fields[4]] = true
		if name, ok := mapFile(fields[0]); ok {
			p.examine(filepath.Join(p.dir, "map_files", name), held)
		}
	}
	if processEnded(lines.Err()) {
		return nil
	}
	return lines.Err()
}

// mapFile returns the name in map_files of a range in maps, which has leading zeros.
func mapFile(addresses string) (string, bool) {
	from, to, ok := strings.Cut(addresses, "-")
	start, err := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	return fmt.Sprintf("%x-%x", start, end), ok && err == nil && err2 == nil
}

// blocked reports whether the process waits in the kernel without end, as in a driver
// that hangs: a read of maps would wait for it too. Its open files can be read.
func (p process) blocked() bool {
	stat, err := hostfs.ReadFile(filepath.Join(p.dir, "stat"), maxFile)
	if err != nil {
		return false
	}
	// PID (COMMAND) STATE …: the command may have spaces and parentheses.
	end := strings.LastIndex(string(stat), ") ")
	return end >= 0 && strings.HasPrefix(string(stat)[end:], ") D")
}
