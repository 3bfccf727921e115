package cuda

import (
	"errors"
	"fmt"
)

// ErrNoLibrary reports that the library is missing or cannot be loaded.
var ErrNoLibrary = errors.New("library not loadable")

// ErrNoSymbol reports that the library lacks a required function.
var ErrNoSymbol = errors.New("symbol missing")

// Code is a result of the CUDA driver API.
type Code int

// Codes whose causes are outside of the program.
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

// Error is a failed call of the driver.
type Error struct {
	// Op is the function, for example "cuInit".
	Op   string
	Code Code
	// Name and Text describe Code, as the library reports them.
	Name string
	Text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Op, e.Name, e.Code, e.Text)
}
