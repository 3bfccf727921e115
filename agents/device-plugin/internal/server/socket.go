package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"outrigger.dev/pkg/hostfs"
)

// socket is a listening unix socket that knows whether its file is still the
// one it made: the kubelet removes the sockets of all plugins when it starts.
type socket struct {
	path     string
	listener *net.UnixListener
	file     os.FileInfo
}

// removeLeftover makes room for the first socket of this process. What is at the path
// belongs to a process that has ended, or that this one replaces.
func removeLeftover(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	return nil
}

// listen makes the socket. It fails if there is anything at the path: what appeared
// there since the caller checked is another plugin's.
func listen(path string) (*socket, error) {
	if err := hostfs.CheckSocketPath(path); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	// The path may hold a newer socket by the time this one is closed.
	l.SetUnlinkOnClose(false)
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look up socket: %w", err), l.Close())
	}
	return &socket{path: path, listener: l, file: file}, nil
}

// place is what is at the path of a socket.
type place int

const (
	placeEmpty place = iota
	placeOurs
	placeForeign
)

// check reads the path once. With two reads a socket that is removed in between would
// seem to be another plugin's.
func (s *socket) check() place {
	file, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return placeEmpty
	case err == nil && sameSocket(file, s.file):
		return placeOurs
	default:
		return placeForeign
	}
}

// close stops accepting, and removes the file unless it is someone else's.
func (s *socket) close() error {
	var err error
	if s.check() == placeOurs {
		err = os.Remove(s.path)
	}
	if cerr := s.listener.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// sameSocket reports whether both are one socket. One that was made later at the same
// path may have the same inode number.
func sameSocket(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
