package kube

import (
	"encoding/json"
	"fmt"
	"io"
)

// maxValue bounds the size of one answer or of one event of a watch. It is far above
// the size of any object: etcd accepts 1.5 MiB by default.
const maxValue = 4 << 20

// decoder reads JSON values of limited size from a stream.
type decoder struct {
	json *json.Decoder
	from *limited
}

func newDecoder(r io.Reader) decoder {
	from := &limited{r: r}
	return decoder{json: json.NewDecoder(from), from: from}
}

// decode reads the next value into to.
func (d decoder) decode(to any) error {
	d.from.left = maxValue
	return d.json.Decode(to)
}

// limited reads at most left bytes.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the API server sent more than %d MiB for one object or list", maxValue>>20)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
