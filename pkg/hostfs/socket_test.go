package hostfs_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/hostfs"
)

// The limit is the kernel's.
func TestCheckSocketPath(t *testing.T) {
	dir := agenttest.ShortDir(t)
	for _, length := range []int{107, 108} {
		path := filepath.Join(dir, strings.Repeat("s", length-len(dir)-1))
		listener, err := net.Listen("unix", path) //nolint:noctx // it listens at once
		if err == nil {
			defer listener.Close()
		}
		got := hostfs.CheckSocketPath(path)
		if (got == nil) != (err == nil) {
			t.Errorf("CheckSocketPath() of %d bytes = %v, and the kernel says %v", length, got, err)
		}
		if got != nil && (!strings.Contains(got.Error(), path) || !strings.Contains(got.Error(), "at most 107")) {
			t.Errorf("CheckSocketPath() = %v", got)
		}
	}
}
