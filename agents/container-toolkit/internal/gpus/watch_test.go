package gpus_test

import (
	"bufio"
	"io"
	"testing"

	"outrigger.dev/pkg/gpu"
)

// nodes returns the nodes in the lines of r.
func nodes(t *testing.T, r io.Reader) <-chan *gpu.Node {
	t.Helper()
	out := make(chan *gpu.Node)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			n, err := gpu.Decode(lines.Bytes())
			if err != nil {
				t.Errorf("line %q: %v", lines.Text(), err)
				return
			}
			out <- n
		}
	}()
	return out
}
