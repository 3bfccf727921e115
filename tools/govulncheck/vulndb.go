// Package govulncheck pins the version of govulncheck, and of its database in data/osv of a module.
package govulncheck

// "go mod tidy" keeps a module only if one of its packages is imported.
import _ "golang.org/x/vulndb/cmd/vulnreport/color"
