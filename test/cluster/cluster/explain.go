package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"outrigger.dev/test/cluster/internal/nodeinit"
)

// tailLines is the number of log lines that explain prints.
const tailLines = 20

// componentError is a failure of one component of a node.
type componentError struct {
	node, component string
	err             error
}

func (e componentError) Error() string {
	return fmt.Sprintf("start %s on %s: %v", e.component, e.node, e.err)
}

func (e componentError) Unwrap() error { return e.err }

// explain prints the end of the logs of all components that may have caused a failure: the
// component that did not become ready, and components that ended without a request.
func (c *Cluster) explain(ctx context.Context, err error) {
	var failed componentError
	if errors.As(err, &failed) {
		c.printTail(failed.node, failed.component)
	}
	for _, n := range c.plan.Nodes {
		all, err := c.client(n).Status(ctx)
		if err != nil {
			continue // The node has no components yet.
		}
		for _, s := range all {
			suspect := s.Ends > 0 || s.State == nodeinit.Waiting
			if suspect && (n.Name != failed.node || s.Name != failed.component) {
				c.printTail(n.Name, s.Name)
			}
		}
	}
}

// printTail prints the end of a component's log.
func (c *Cluster) printTail(node, component string) {
	path, err := c.Log(node, component)
	if err != nil {
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		c.progress.say("%s on %s has no log: %v", component, node, err)
		return
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	c.progress.say("the end of the log of %s on %s:\n%s", component, node, bytes.Join(lines, []byte("\n")))
}
