package app

import (
	"os"
	"regexp"
)

// hint matches a command of gpu-sim that a text recommends.
var hint = regexp.MustCompile(`(["(])gpu-sim ((?:(?:mig|proc) )?[a-z]+)( --(?:root|help)\b)?`)

// withRoot adds --root to the commands that a text recommends, unless they work on the node at root
// without it.
func withRoot(text, root string) string {
	if root == DefaultRoot || os.Getenv("GPU_SIM_ROOT") == root {
		return text
	}
	return hint.ReplaceAllStringFunc(text, func(found string) string {
		if m := hint.FindStringSubmatch(found); m[3] != "" {
			return found
		}
		return found + " --root " + root
	})
}

// rootError is an error whose commands work on the node at root.
type rootError struct {
	error

	root string
}

// Error implements error.
func (e rootError) Error() string { return withRoot(e.error.Error(), e.root) }

// Unwrap returns the error without the root.
func (e rootError) Unwrap() error { return e.error }
