// Package models has the data files of the simulated products. README.md describes them.
package models

import "embed"

// Files has one file for each product, "<name>.yaml".
//
//go:embed *.yaml
var Files embed.FS
