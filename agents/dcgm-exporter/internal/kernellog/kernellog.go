// Package kernellog reads the errors of GPUs that the driver writes into the kernel's log and
// does not report through NVML.
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
	// BusID is the place of the GPU on the PCI bus, as sysfs writes it: "0000:17:00.0".
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

// valid reports whether a text is a place on the PCI bus: "0000:17:00.0".
func validBusID(bus string) bool {
	return len(bus) >= len("0000:17:00.0") && len(bus) <= len("00000000:17:00.0") &&
		strings.Trim(bus, "0123456789abcdefABCDEF:.") == ""
}

// unreported are the errors that NVML does not report: it has lost the GPU by then.
func unreported(code uint64) bool { return code == 79 || code == 119 || code == 120 }

// mostLine is the longest record of the kernel's log.
const mostLine = 8192

// Watch delivers the errors that NVML does not report, from now on, until ctx ends. path is
// usually /dev/kmsg. The error is for a log that cannot be read.
func Watch(ctx context.Context, path string, deliver func(XID)) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("read the kernel's log: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() }) // it ends the read
	defer func() {
		if stop() {
			_ = f.Close() // nothing was written
		}
	}()
	// What was logged before is not of now. A pipe has no end to seek.
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
			return fmt.Errorf("read the kernel's log %s: it is no kernel log: it has a line of more than %d bytes", path, mostLine)
		case errors.Is(err, syscall.EPIPE):
			continue // the kernel has written over what was to be read next
		case err != nil:
			return fmt.Errorf("read the kernel's log %s: %w", path, err)
		}
		if x, ok := Parse(text.Printable(line)); ok && unreported(x.Code) {
			deliver(x)
		}
	}
}
