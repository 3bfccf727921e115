package module

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// maxSize is the most bytes of a module, in a file and decompressed. NVIDIA's largest has
// about 100 MiB with its debug information.
const maxSize = 256 << 20

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxSize>>20)

// decompress returns what a compressed file has, and any other as it is. The first bytes
// tell, as for kmod: the name of a file may be wrong.
func decompress(data []byte, limit int64) ([]byte, error) {
	form, open := compression(data)
	if open == nil {
		return data, nil
	}
	out, err := expand(open, data, limit)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", form, err)
	}
	return out, nil
}

// compression returns the form of a compressed file, and what reads it; nil for others.
func compression(data []byte) (string, func(io.Reader) (io.ReadCloser, error)) {
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return "gzip", func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }
	case bytes.HasPrefix(data, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return "xz", func(r io.Reader) (io.ReadCloser, error) {
			x, err := xz.NewReader(r)
			return io.NopCloser(x), err
		}
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd", func(r io.Reader) (io.ReadCloser, error) {
			z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
			if err != nil {
				return nil, err
			}
			return z.IOReadCloser(), nil
		}
	}
	return "", nil
}

func expand(open func(io.Reader) (io.ReadCloser, error), data []byte, limit int64) ([]byte, error) {
	r, err := open(bytes.NewReader(data))
	if err != nil {
		return nil, unexpected(err)
	}
	defer r.Close()
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, unexpected(err)
	}
	if int64(len(out)) > limit {
		return nil, errTooLarge
	}
	return out, nil
}

// unexpected names what the libraries call an unexpected end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	return err
}
