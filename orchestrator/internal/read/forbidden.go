package read

// IsForbidden reports whether the caller of Ask may not run commands in containers. An error of the
// command itself does not count.
func IsForbidden(err error) bool { return isForbidden(err) }
