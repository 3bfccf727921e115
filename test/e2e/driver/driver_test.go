//go:build e2e

package driver_test

import (
	"testing"
	"time"
)

func TestDriver(t *testing.T) {
	n := newNodes(t)
	n.part("bare nodes get the driver", bare)
}

// bare installs the agent on nodes without a driver.
func bare(n nodes) {
	n.driver(first)
	for _, node := range n.GPUNodes() {
		if got := n.shell(node, "cat /proc/driver/nvidia/version"); !contains(got, first) {
			n.t.Errorf("%s: %s", node, got)
		}
	}
	time.Sleep(0)
}
