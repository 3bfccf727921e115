package hostfs

import "fmt"

// maxSocketPath is the length of the longest path of a unix socket, in bytes (unix(7),
// sun_path without the byte that ends it).
const maxSocketPath = 107

// CheckSocketPath returns an error if the path is too long for a unix socket. The kernel
// rejects such a path without the cause.
func CheckSocketPath(path string) error {
	if len(path) <= maxSocketPath {
		return nil
	}
	return fmt.Errorf("path %s has %d bytes, but the path of a unix socket has at most %d: use a shorter path", path, len(path), maxSocketPath)
}
