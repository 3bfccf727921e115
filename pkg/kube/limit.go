package kube

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxValue is the largest size of one answer, or of one event of a watch, in bytes.
// It is far above the size of any object: etcd accepts 1.5 MiB by default. client-go
// has no limit.
const maxValue = 4 << 20

// limiter limits the size of answers, except of watches. The reader of a watch limits the size of
// each event.
type limiter struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (l limiter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !r.URL.Query().Has("watch") {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxValue}
	}
	// A proxy may send a time, which client-go does not understand.
	if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
		resp.Header.Set("Retry-After", strconv.Itoa(int(time.Until(at).Seconds())))
	}
	return resp, nil
}

// limitedBody reads at most left bytes.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (l *limitedBody) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the API server sent more than %d MiB for one object or list", maxValue>>20)
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
