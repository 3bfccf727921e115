package draapp

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMissingFolderOfTheKubeletIsNamedWithTheFix(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "plugins_registry")
	fix := "mount the kubelet's folder " + missing + " at the same path, or set --kubelet-registry-dir"
	for registry, want := range map[string]bool{missing: true, dir: false} {
		k := &kubelet{settings: &settings{registry: registry}}
		// The library has this text, without the error of the kernel.
		got := k.serveError(errors.New("start registrar: bind: no such file or directory")).Error()
		if strings.Contains(got, fix) != want {
			t.Errorf("serveError() with the folder %s = %q", registry, got)
		}
	}
}
