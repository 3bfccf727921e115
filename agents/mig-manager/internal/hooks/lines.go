package hooks

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxLine is the longest line that is passed on; longer ones are cut into several.
const maxLine = 4 << 10

// eachLine calls each with every line of what r has, until its end.
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
