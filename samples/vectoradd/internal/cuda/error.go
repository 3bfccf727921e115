package cuda

import (
	"errors"
	"fmt"
)

// ErrNoLibrary says that the library is not there or does not load.
var ErrNoLibrary = errors.New("library not loadable")

// ErrNoSymbol says that the library lacks a function that is needed.
var ErrNoSymbol = errors.New("symbol missing")

// Code is a result of the CUDA driver API.
type Code int

// The results that have a known cause outside the program.
const (
	CodeOutOfMemory           Code = 2
	CodeStubLibrary           Code = 34
	CodeDeviceUnavailable     Code = 46
	CodeNoDevice              Code = 100
	CodeInvalidDevice         Code = 101
	CodeNoBinaryForGPU        Code = 209
	CodeECCUncorrectable      Code = 214
	CodeInvalidPTX            Code = 218
	CodeUnsupportedPTXVersion Code = 222
	CodeJITCompilerNotFound   Code = 221
	CodeOperatingSystem       Code = 304
	CodeNotPermitted          Code = 800
	CodeNotSupported          Code = 801
	CodeSystemNotReady        Code = 802
	CodeDriverMismatch        Code = 803
	CodeUnknown               Code = 999
)

// Error is a call that the driver refused.
type Error struct {
	// Op is the function, for example "cuInit".
	Op   string
	Code Code
	// Name and Text are the library's own words for Code.
	Name string
	Text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Op, e.Name, e.Code, e.Text)
}
