// Package kernellog reads the errors of GPUs that the driver writes to the kernel's log and does
// not report through NVML.
package kernellog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"outrigger.dev/pkg/text"
)

// XID is an error of a GPU (NVIDIA's XID catalogue).
type XID struct {
	// BusID is the PCI bus ID of the GPU in the format of sysfs: "0000:17:00.0".
	BusID string
	Code  uint64
}

// Parse returns the error in a line of the log, and false for any other line:
//
//	NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
func Parse(line string) (XID, bool) {
	_, rest, ok := strings.Cut(line, "NVRM: Xid (PCI:")
	if !ok {
		return XID{}, false
	}
	bus, rest, ok := strings.Cut(rest, "): ")
	if !ok {
		return XID{}, false
	}
	if !strings.Contains(bus, ".") {
		bus += ".0"
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	code, err := strconv.ParseUint(rest[:end], 10, 32)
	if err != nil || !validBusID(bus) {
		return XID{}, false
	}
	return XID{BusID: strings.ToLower(bus), Code: code}, true
}

// validBusID reports whether a text is a PCI bus ID: "0000:17:00.0".
func validBusID(bus string) bool {
	return len(bus) >= len("0000:17:00.0") && len(bus) <= len("00000000:17:00.0") &&
		strings.Trim(bus, "0123456789abcdefABCDEF:.") == ""
}

// unreported reports whether NVML does not report an error. NVML has already lost the GPU when
// these errors happen.
func unreported(code uint64) bool { return code == 79 || code == 119 || code == 120 }

// mostLine is the length of the longest record in the kernel's log, in bytes.
const mostLine = 8192

// Watch delivers new errors that NVML does not report, until ctx ends. path is usually /dev/kmsg.
// Watch returns an error if it cannot read the log.
func Watch(ctx context.Context, path string, deliver func(XID)) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("read the kernel's log: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() }) // Close ends the read
	defer func() {
		if stop() {
			_ = f.Close() // nothing was written
		}
	}()
	// Skip old records. A pipe does not support seeking.
	if _, err := f.Seek(0, io.SeekEnd); err != nil && !errors.Is(err, syscall.ESPIPE) {
		return fmt.Errorf("read the kernel's log %s: %w", path, err)
	}
	lines := bufio.NewReaderSize(f, mostLine)
	for {
		data, err := lines.ReadSlice('\n')
		line := string(data)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read the kernel's log %s: it is not a kernel log: it has a line of more than %d bytes", path, mostLine)
		case errors.Is(err, syscall.EPIPE):
			continue // the kernel has overwritten the next record
		case err != nil:
			return fmt.Errorf("read the kernel's log %s: %w", path, err)
		}
		if x, ok := Parse(text.Printable(line)); ok && unreported(x.Code) {
			deliver(x)
		}
	}
}
