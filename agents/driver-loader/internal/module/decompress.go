package module

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"outrigger.dev/agents/driver-loader/internal/decompress"
)

// maxSize is the largest size of a module, compressed and decompressed, in bytes. NVIDIA's largest
// module has about 100 MiB with debug information.
const maxSize = 256 << 20

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxSize>>20)

// decompressed returns the decompressed content of a file. It returns other files unchanged.
func decompressed(data []byte, limit int64) ([]byte, error) {
	plain, form, err := decompress.Reader(bufio.NewReader(bytes.NewReader(data)))
	if form == "" {
		return data, nil
	}
	var out []byte
	if err == nil {
		defer plain.Close()
		out, err = io.ReadAll(io.LimitReader(plain, limit+1))
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errCutOff
	case err == nil && int64(len(out)) > limit:
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", form, err)
	}
	return out, nil
}
