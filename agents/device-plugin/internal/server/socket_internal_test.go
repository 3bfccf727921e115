package server

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Between the look that finds no socket and the making of one, another plugin
// may make its own.
func TestListenTakesNoPlaceThatIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen: %v, want %v", err, syscall.EADDRINUSE)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "other" {
		t.Errorf("the other's file is %q, %v", data, err)
	}
}
