// Package charts holds the Helm charts of the agents, so that a program can
// apply the very files that a person installs by hand.
package charts

import (
	"embed"
	"io/fs"
)

//go:embed */Chart.yaml */values.yaml */values.schema.json */README.md all:*/templates all:common
var files embed.FS

// FS returns the charts, each in the folder that has its name, and in the folder
// common the templates that each of them has as templates/common: there it is a
// symbolic link, which cannot be embedded.
func FS() fs.FS {
	return files
}
