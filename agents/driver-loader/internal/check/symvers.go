package check

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ParseSymvers reads a Module.symvers file, which is in the headers of a kernel and in the output of
// each build: "0x92997ed8	_printk	vmlinux	EXPORT_SYMBOL	". A symbol without a version
// has 0x00000000.
func ParseSymvers(r io.Reader) (Symbols, error) {
	out := Symbols{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if lines.Text() == "" {
			continue
		}
		crc, rest, _ := strings.Cut(lines.Text(), "\t")
		name, _, ok := strings.Cut(rest, "\t")
		version, err := strconv.ParseUint(crc, 0, 32)
		if !ok || name == "" || err != nil {
			return nil, fmt.Errorf("parse Module.symvers: line %d has no version, symbol and module", n)
		}
		out[name] = uint32(version)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("parse Module.symvers: %w", err)
	}
	return out, nil
}
