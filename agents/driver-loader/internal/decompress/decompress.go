// Package decompress decompresses drivers and kernel modules.
package decompress

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// maxWindow limits the memory of decompressors, in bytes. xz -9 needs 64 MiB.
const maxWindow = 256 << 20

// magic is the number of bytes that identify each format.
const magic = 6

// Reader returns a reader of the decompressed content of r, and the name of the format. Like kmod,
// it recognizes the format by the first bytes, because the name of a file may be wrong. If r is not
// compressed, it returns r and "".
func Reader(r *bufio.Reader) (plain io.ReadCloser, form string, err error) {
	head, _ := r.Peek(magic) // a shorter file is not compressed
	switch {
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		plain, err = readXZ(r)
		return plain, "xz", err
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, "zstd", err
		}
		return z.IOReadCloser(), "zstd", nil
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		plain, err = gzip.NewReader(r)
		return plain, "gzip", err
	case bytes.HasPrefix(head, []byte("BZh")):
		return io.NopCloser(bzip2.NewReader(r)), "bzip2", nil
	}
	return io.NopCloser(r), "", nil
}

// readXZ decompresses xz. It checks the memory that the first block needs, because the library
// allocates up to 4 GiB.
func readXZ(r *bufio.Reader) (io.ReadCloser, error) {
	// The header of a stream has 12 bytes. The first byte of a block's header encodes its size.
	head, err := r.Peek(13)
	if err == nil {
		head, err = r.Peek(12 + (int(head[12])+1)*4)
	}
	if err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	// The filter LZMA2 has the number 0x21 and one byte of properties. This byte encodes the size
	// of the dictionary: 2 or 3, shifted.
	if at := bytes.Index(head[13:], []byte{0x21, 1}); at >= 0 && 13+at+2 < len(head) {
		if bits := head[13+at+2]; (2|uint64(bits)&1)<<(bits/2+11) > maxWindow {
			return nil, fmt.Errorf("xz needs a dictionary of more than %d MiB", maxWindow>>20)
		}
	}
	plain, err := xz.NewReader(r)
	return io.NopCloser(plain), err
}
