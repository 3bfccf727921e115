package module

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

func TestDecompressedSizeIsLimited(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, w.Close())
	if out, err := decompressed(packed.Bytes(), 1<<20); err != nil || len(out) != 1<<20 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if _, err := decompressed(packed.Bytes(), 1<<20-1); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}
