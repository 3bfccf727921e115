package build

import (
	"errors"
	"io"
	"os"
	"strings"

	"outrigger.dev/pkg/text"
)

const (
	// tailLines is the number of lines that are shown of the output of a failed build.
	tailLines = 40
	maxLine   = 16 << 10
	// maxLog is the largest size of the file with the output, in bytes.
	maxLog = 16 << 20
)

// follow reads the output of make, writes it to the log, reports the progress, and returns the last
// lines. It keeps lines with errors even if many other lines follow.
func (m makeRun) follow(output io.Reader, measure *meter) ([]string, error) {
	log, err := os.OpenFile(m.log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		_, drained := io.Copy(io.Discard, output)
		return nil, errors.Join(err, drained)
	}
	failed := explaining()
	var tail, errs []string
	written := 0
	err = eachLine(output, func(line string) {
		shown := text.Printable(strings.ReplaceAll(line, "\t", " "))
		if written += len(shown) + 1; written < maxLog {
			if _, err := log.WriteString(shown + "\n"); err != nil {
				written = maxLog // a full disk is the build's error, not the log's
			}
		}
		if failed.MatchString(shown) && len(errs) < tailLines/4 {
			errs = append(errs, shown)
		}
		if tail = append(tail, shown); len(tail) > tailLines {
			tail = tail[1:]
		}
		if p, ok := measure.add(shown, m.now()); ok {
			m.progress(p)
		}
	})
	return merge(errs, tail), errors.Join(err, log.Close())
}

// merge puts the errors that tail does not have in front of tail.
func merge(errs, tail []string) []string {
	has := map[string]bool{}
	for _, line := range tail {
		has[line] = true
	}
	var first []string
	for _, line := range errs {
		if !has[line] {
			first = append(first, line)
		}
	}
	return append(first, tail...)
}
