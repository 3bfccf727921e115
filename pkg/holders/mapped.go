package holders

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// mapped adds the devices that the process has mapped. They stay in use after the process has
// closed them.
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
		// A file can have several mappings. Its device and inode (00:05 123 in the line "7f12-7f13
		// rw-s 00000000 00:05 123 /dev/nvidia0") identify it, so that it is examined once.
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

// mapFile returns the name in map_files for a range in maps. The range has leading zeros, but the
// name does not.
func mapFile(addresses string) (string, bool) {
	from, to, ok := strings.Cut(addresses, "-")
	start, err := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	return fmt.Sprintf("%x-%x", start, end), ok && err == nil && err2 == nil
}

// blocked reports whether the process waits in the kernel without end, for example in a driver that
// hangs. A read of its file maps would also wait, but its folder fd can be read.
func (p process) blocked() bool {
	stat, err := hostfs.ReadFile(filepath.Join(p.dir, "stat"), maxFile)
	if err != nil {
		return false
	}
	// PID (COMMAND) STATE …: the command may contain spaces and parentheses.
	end := strings.LastIndex(string(stat), ") ")
	return end >= 0 && strings.HasPrefix(string(stat)[end:], ") D")
}
