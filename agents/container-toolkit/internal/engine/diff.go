package engine

import (
	"os"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Diff returns the changes as a unified diff. A file that does not exist is /dev/null.
func (p Plan) Diff() string {
	var b strings.Builder
	for _, c := range p.Changes {
		from, to := c.Path, c.Path
		if c.Before == nil {
			from = "/dev/null"
		}
		if c.After == nil {
			to = "/dev/null"
		}
		b.WriteString(udiff.Unified(from, to, string(c.Before), string(c.After)))
	}
	return b.String()
}

// rootless reports whether the engine belongs to a user other than root.
func (t target) rootless() bool {
	return os.Geteuid() != 0 || t.process != nil && t.process.variable(rootlessVariable) != ""
}

// Advice returns the command that makes the engine load its config, for a person to run.
func (p Plan) Advice() string {
	verb := "restart"
	if p.target.rootless() {
		// After a reload, rootlesskit would get the signal for dockerd.
		return "systemctl --user restart " + string(p.Engine)
	}
	if p.Engine == Docker {
		verb = "reload"
	}
	return "systemctl " + verb + " " + strings.TrimSuffix(p.target.unit, ".service")
}
