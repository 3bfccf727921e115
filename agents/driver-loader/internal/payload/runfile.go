package payload

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5" //nolint:gosec // the checksum that these archives have
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/decompress"
	"outrigger.dev/pkg/cause"
)

// Limits of the script at the beginning of an archive, which contains the decompressor.
const (
	maxStub     = 16 << 20
	maxStubLine = 1 << 20
	// checkedFrom is the first line that the archive's checksum includes.
	checkedFrom = 4
)

// stub has the variables of the script at the beginning of a .run archive. The format is makeself 1.6.0-nv:
// shell assignments, and compressed tar from the line "skip".
type stub struct {
	skip            int
	md5             string
	machine, system string
	// folder is the name of the folder into which the script extracts the archive.
	folder string
}

// set parses a line of the script.
func (s *stub) set(line string) {
	key, value, found := strings.Cut(line, "=")
	if !found {
		return
	}
	value = strings.Trim(value, `"`)
	switch key {
	case "skip":
		if n, err := strconv.Atoi(value); err == nil && s.skip == 0 {
			s.skip = n
		}
	case "MD5":
		s.md5 = value
	case "TARGET_ARCH":
		s.machine = value
	case "TARGET_OS":
		s.system = value
	case "targetdir":
		// Later lines of the script are code.
		s.folder = cmp.Or(s.folder, value)
	}
}

// archive is an open .run archive, at the beginning of its compressed part.
type archive struct {
	stub
	name string
	raw  *bufio.Reader
	sum  hash.Hash
}

// openArchive parses the script of an archive, without running it.
func openArchive(name string, r io.Reader) (*archive, error) {
	a := &archive{name: name, raw: bufio.NewReaderSize(r, maxStubLine), sum: md5.New()} //nolint:gosec // the checksum that these archives have
	read := 0
	line := 1
	for ; a.skip == 0 || line < a.skip; line++ {
		text, err := a.raw.ReadSlice('\n')
		if read += len(text); err != nil || read > maxStub {
			return nil, a.noArchive(err)
		}
		if line == 1 && !bytes.HasPrefix(text, []byte("#!")) {
			return nil, a.noArchive(nil)
		}
		if line >= checkedFrom {
			a.sum.Write(text)
		}
		a.set(strings.TrimSuffix(string(text), "\n"))
	}
	if a.skip < line {
		return nil, problem(cause.PayloadCorrupt, a.name, fetchAgain, "has a script that begins its content at the line %d, before its own end", a.skip)
	}
	return a, nil
}

func (a *archive) noArchive(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	if errors.Is(err, io.EOF) && a.skip > 0 {
		return problem(cause.PayloadTruncated, a.name, fetchAgain, "ends before its content at line %d", a.skip)
	}
	return problem(cause.PayloadCorrupt, a.name, fetchAgain, "is not a .run archive of NVIDIA's installer")
}

// extract calls the function each with every entry of the archive. Then it compares the checksum.
func (a *archive) extract(each func(*tar.Header, io.Reader) error) error {
	checked := io.TeeReader(a.raw, a.sum)
	// Decompressors stop before the end of the file. The rest is read below.
	buffered := bufio.NewReader(checked)
	if _, err := buffered.Peek(1); err != nil {
		return a.damaged(io.ErrUnexpectedEOF)
	}
	compressed, _, err := decompress.Reader(buffered)
	if err != nil {
		return a.damaged(readFailed(err))
	}
	plain := errorMarker{compressed}
	defer plain.Close()
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return a.damaged(err)
		}
		if err := each(header, files); err != nil {
			return a.damaged(err)
		}
	}
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return a.damaged(err)
	}
	if _, err := io.Copy(io.Discard, buffered); err != nil {
		return a.damaged(err)
	}
	if sum := hex.EncodeToString(a.sum.Sum(nil)); strings.Trim(a.md5, "0") != "" && sum != a.md5 {
		return problem(cause.PayloadCorrupt, a.name, fetchAgain, "has the checksum %s, but its header has %s", sum, a.md5)
	}
	return nil
}

// readError is an error of reading the compressed stream. Errors of writing files have other types.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// damaged returns the Cause of a read error.
func (a *archive) damaged(err error) error {
	var read readError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem(cause.PayloadTruncated, a.name, fetchAgain, "is truncated")
	case errors.As(err, &read), errors.Is(err, tar.ErrHeader):
		return problem(cause.PayloadCorrupt, a.name, fetchAgain, "cannot be decompressed: %v", err)
	}
	return err
}

func readFailed(err error) error { return readError{fmt.Errorf("read the archive: %w", err)} }

// errorMarker turns the errors of a decompressor into readErrors.
type errorMarker struct{ io.ReadCloser }

func (r errorMarker) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = readFailed(err)
	}
	return n, err
}
