package ctk_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

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
	h := newHost(t)
	// Without processes, because an engine of this machine reads another file.
	const script = `mount -t tmpfs tmpfs /proc && exec "$1/nvidia-ctk" runtime configure --dry-run --config "$2" --set-as-default --cdi.enabled`
	stdout, err := h.Command(t.Context(), "sh", "-ec", script, "sh", h.dir, path).CombinedOutput()
	assert.NilError(t, err, string(stdout))
	assert.Equal(t, string(stdout), strings.ReplaceAll(`--- FILE
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

// A container with GPUs runs as the other containers do, if config.toml lists the same program first.
func TestRuntimeConfigureNamesTheLowLevelRuntime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.json")
	assert.NilError(t, os.WriteFile(path, []byte(`{"default-runtime": "crun", "runtimes": {"crun": {"path": "/opt/crun"}}}`), 0o644))
	h := newHost(t)
	const script = `mount -t tmpfs tmpfs /proc && cd "$1" && export NVIDIA_CTK_CONFIG_FILE_PATH="$2.toml"
./nvidia-ctk runtime configure --dry-run --config "$2" | grep note:
./nvidia-ctk config --in-place --set nvidia-container-runtime.runtimes=/opt/crun,runc,crun
./nvidia-ctk runtime configure --dry-run --config "$2" | grep -c note: || true`
	out, err := h.Command(t.Context(), "sh", "-ec", script, "sh", h.dir, path).CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.Equal(t, string(out), "note: docker runs containers with /opt/crun, and nvidia-container-runtime prefers runc: to use the same program, "+
		"run nvidia-ctk config --in-place --set nvidia-container-runtime.runtimes=/opt/crun,runc,crun\n0\n")
}

// A person who takes back by hand what the agent did need not know for which engines.
func TestRuntimeUnconfigureTakesBackAllEngines(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	before := map[string]string{"config.toml": "# by hand\nversion = 3 # do not change\n", "daemon.json": "{\"bip\": \"10.0.0.1/24\"}\n"}
	for name, text := range before {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	// The records are on a file system of this command only, which sees no engine of this machine.
	const script = `mount -t tmpfs tmpfs /var/lib && mount -t tmpfs tmpfs /proc && cd "$1" && ctk="$2/nvidia-ctk runtime"
$ctk configure --runtime containerd --config "$1/config.toml" --drop-in-config "$1/conf.d/nvidia.toml" --executable-path /none --nvidia-set-as-default
$ctk configure --runtime docker --config "$1/daemon.json" --executable-path /none
cmp config.toml daemon.json || echo --- changed
$ctk unconfigure
ls /var/lib
$ctk unconfigure --dry-run --config "$1/daemon.json"`
	out, err := h.Command(t.Context(), "sh", "-ec", script, "sh", dir, h.dir).CombinedOutput()
	assert.NilError(t, err, string(out))
	_, undone, ok := strings.Cut(string(out), "--- changed\n")
	assert.Assert(t, ok, string(out))
	golden.Assert(t, strings.ReplaceAll(undone, dir, "DIR"), "unconfigure-all.golden")
	for name, text := range before {
		now, err := os.ReadFile(filepath.Join(dir, name))
		assert.NilError(t, err)
		assert.Equal(t, string(now), text)
	}
}

// A user configures a rootless Docker as its documentation says: all files are in the user's folders.
func TestRuntimeConfigureOfARootlessDocker(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root to become another user")
	}
	const user = 65534
	for name, state := range map[string]string{"HOME": ".local/state", "XDG_STATE_HOME": "state"} {
		t.Run(name, func(t *testing.T) {
			home, err := os.MkdirTemp("", "rootless") //nolint:usetesting // the user cannot enter a folder of the test
			assert.NilError(t, err)
			t.Cleanup(func() { assert.NilError(t, os.RemoveAll(home)) })
			config := filepath.Join(home, ".config/docker/daemon.json")
			assert.NilError(t, os.MkdirAll(filepath.Dir(config), 0o755))
			const text = "{\n  \"data-root\": \"/srv\"\n}\n"
			assert.NilError(t, os.WriteFile(config, []byte(text), 0o644))
			self, err := os.Executable()
			assert.NilError(t, err)
			program, err := os.ReadFile(self)
			assert.NilError(t, err)
			assert.NilError(t, os.WriteFile(filepath.Join(home, "nvidia-ctk"), program, 0o755)) //nolint:gosec // a program
			assert.NilError(t, exec.CommandContext(t.Context(), "chown", "-R", strconv.Itoa(user)+":"+strconv.Itoa(user), home).Run())
			ctk := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), filepath.Join(home, "nvidia-ctk"), append([]string{"runtime"}, args...)...)
				cmd.Env, cmd.Dir = []string{"HOME=" + home}, home
				if name != "HOME" {
					cmd.Env = append(cmd.Env, name+"="+filepath.Join(home, state))
				}
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
				out, err := cmd.CombinedOutput()
				assert.NilError(t, err, "%s", out)
				return string(out)
			}
			out := ctk("configure", "--runtime=docker", "--config="+config)
			assert.Equal(t, out, "changed "+config+"\nnext: systemctl --user restart docker\n")
			records, err := filepath.Glob(filepath.Join(home, state, "nvidia-container-toolkit/engine/docker*.json"))
			assert.NilError(t, err)
			assert.Equal(t, len(records), 1)
			ctk("unconfigure")
			now, err := os.ReadFile(config)
			assert.NilError(t, err)
			assert.Equal(t, string(now), text)
			_, err = os.Stat(records[0])
			assert.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestRuntimeRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		err  string
	}{
		"another engine":  {[]string{"configure", "--runtime", "podman"}, `nvidia-ctk: unknown container engine "podman": use docker, containerd or crio`},
		"hook mode":       {[]string{"configure", "--runtime", "crio", "--config-mode", "oci-hook"}, `nvidia-ctk: flag --config-mode: invalid value "oci-hook": must be config-file or config`},
		"a relative path": {[]string{"unconfigure", "--config", "x"}, `nvidia-ctk: "x" is not an absolute path`},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := runCtk(append([]string{"runtime"}, tc.args...)...)
			assert.Equal(t, code, 1)
			assert.Equal(t, strings.TrimSpace(stderr), tc.err)
		})
	}
}
