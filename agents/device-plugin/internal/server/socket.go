package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/hostfs"
)

// socket is a listening unix socket. It can check whether its file still exists, because the
// kubelet removes the sockets of all plugins when it starts.
type socket struct {
	path     string
	listener *net.UnixListener
	file     os.FileInfo
}

// removeLeftover removes an old socket before the first socket of this process is created. The
// old socket belongs to a process that has ended, or that this process replaces.
func removeLeftover(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	return nil
}

// listen creates the socket. It returns an error if the path exists: a file that appeared
// there after the caller's check belongs to another plugin.
func listen(path string) (*socket, error) {
	if err := hostfs.CheckSocketPath(path); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("listen: %w: mount the kubelet's folder %s at the same path, or set --kubelet-socket", err, filepath.Dir(path))
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("listen: %w: run the plugin as root", err)
	case err != nil:
		return nil, fmt.Errorf("listen: %w", err)
	}
	// When this socket is closed, the path may belong to a newer one.
	l.SetUnlinkOnClose(false)
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look up socket: %w", err), l.Close())
	}
	return &socket{path: path, listener: l, file: file}, nil
}

// place is the state of the path of a socket.
type place int

const (
	placeEmpty place = iota
	placeOurs
	placeForeign
)

// check returns the state of the path. It reads the path only once, because with two reads, a
// socket that is removed in between would seem to belong to another plugin.
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

// close stops accepting, and removes the file unless it belongs to another socket.
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

// sameSocket reports whether a and b are the same socket. It also compares times, because a
// later socket at the same path may have the same inode number.
func sameSocket(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
