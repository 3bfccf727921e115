package text

import "sync"

// tailSize is the number of bytes that a Tail keeps.
const tailSize = 2 << 10

// Tail keeps the end of the text that is written to it, such as the output of a program before it
// fails. Its zero value is ready, and its methods are safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	end []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p[max(0, len(p)-tailSize):]...)
	t.end = append(t.end[:0], t.end[max(0, len(t.end)-tailSize):]...)
	return len(p), nil
}

// String returns the last 2 KiB that were written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}
