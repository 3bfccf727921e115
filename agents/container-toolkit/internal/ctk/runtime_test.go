package ctk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/ctk"
)

// runCtk runs nvidia-ctk, and returns its exit code and output.
func runCtk(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = ctk.Main(append([]string{"nvidia-ctk"}, args...), strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func TestRuntimeConfigureDryRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.json")
	text := "{\n  \"bip\": \"10.0.0.1/24\"\n}\n"
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o644))
	code, stdout, stderr := runCtk("runtime", "configure", "--dry-run", "--config", path, "--set-as-default", "--cdi.enabled")
	assert.Equal(t, code, 0, stderr)
	assert.Equal(t, stdout, strings.ReplaceAll(`--- FILE
+++ FILE
@@ -1,3 +1,13 @@
 {
-  "bip": "10.0.0.1/24"
+  "bip": "10.0.0.1/24",
+  "runtimes": {
+    "nvidia": {
+      "path": "/usr/bin/nvidia-container-runtime",
+      "args": []
+    }
+  },
+  "default-runtime": "nvidia",
+  "features": {
+    "cdi": true
+  }
 }
would change FILE
next: systemctl reload docker
`, "FILE", path))
	now, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(now), text)
}

func TestRuntimeRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		err  string
	}{
		"another engine":  {[]string{"configure", "--runtime", "podman"}, `nvidia-ctk: unknown container engine "podman": use docker, containerd or crio`},
		"hook mode":       {[]string{"configure", "--runtime", "crio", "--config-mode", "oci-hook"}, "nvidia-ctk: --config-mode=oci-hook is not supported: use --config-mode=config-file"},
		"a relative path": {[]string{"unconfigure", "--config", "x"}, `nvidia-ctk: "x" is not an absolute path`},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := runCtk(append([]string{"runtime"}, tc.args...)...)
			assert.Equal(t, code, 1)
			assert.Equal(t, strings.TrimSpace(stderr), tc.err)
		})
	}
}
