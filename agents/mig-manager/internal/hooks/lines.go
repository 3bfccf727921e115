package hooks

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxLine is the largest length of a line, in bytes. Longer lines are split.
const maxLine = 4 << 10

// eachLine calls the function each with every non-empty line of r.
func eachLine(r io.Reader, each func(line string)) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if word := strings.TrimRight(string(line), "\r\n"); word != "" {
			each(word)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
