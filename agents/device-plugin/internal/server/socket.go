package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// socket is a listening unix socket that knows whether its file is still the
// one it made: the kubelet removes the sockets of all plugins when it starts.
type socket struct {
	path     string
	listener *net.UnixListener
	file     os.FileInfo
}

// removeLeftover makes room for the first socket of this process: what is at
// the path is of one that has ended, or that this one replaces.
func removeLeftover(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	return nil
}

// listen makes the socket. It fails if there is anything at the path: what came
// there since the caller looked is another plugin's.
func listen(path string) (*socket, error) {
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

// look looks once: two looks could see a socket that is removed in between, and
// take it for another plugin's.
func (s *socket) look() place {
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
	if s.look() == placeOurs {
		err = os.Remove(s.path)
	}
	if cerr := s.listener.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// sameSocket tells a socket from one that was made later at the same path:
// its inode number may be that of the old one.
func sameSocket(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
