package cdihook_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
)

// bundle is a container before it starts.
type bundle struct {
	testing.TB
	dir string
}

func newBundle(t testing.TB) bundle {
	t.Helper()
	b := bundle{t, t.TempDir()}
	b.file("config.json", `{"ociVersion":"1.0.2","root":{"path":"rootfs"}}`)
	b.file("rootfs/etc/hostname", "x")
	return b
}

func (b bundle) file(name, content string) {
	b.Helper()
	p := filepath.Join(b.dir, name)
	assert.NilError(b, os.MkdirAll(filepath.Dir(p), 0o755))
	assert.NilError(b, os.WriteFile(p, []byte(content), 0o644))
}

func (b bundle) state() string {
	b.Helper()
	data, err := json.Marshal(map[string]any{"ociVersion": "1.0.2", "id": "c", "status": "creating", "pid": 1, "bundle": b.dir})
	assert.NilError(b, err)
	return string(data)
}

// run runs nvidia-cdi-hook and returns its exit code and what it printed.
func (b bundle) run(args ...string) (int, string) {
	var out bytes.Buffer
	code := cdihook.Main("nvidia-cdi-hook", args, strings.NewReader(b.state()), &out, &out)
	return code, out.String()
}

func TestHooks(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		out  string
		// file or link and its content or target.
		file, want string
	}{
		"create-symlinks":                    {args: []string{"create-symlinks", "--link", "libcuda.so.1::/usr/lib/libcuda.so"}, file: "usr/lib/libcuda.so", want: "libcuda.so.1"},
		"create-symlinks in the form of = ":  {args: []string{"create-symlinks", "--link=../a::/usr/lib/gbm/b"}, file: "usr/lib/gbm/b", want: "../a"},
		"create-symlinks of half a link":     {args: []string{"create-symlinks", "--link", "libcuda.so"}, code: 1, out: "TARGET::LINK"},
		"update-ldcache":                     {args: []string{"update-ldcache", "--ldconfig-path", "@/sbin/ldconfig", "--folder", "/opt/lib"}, file: "etc/ld.so.conf.d/00-nvcr-driver.conf", want: "/opt/lib\n"},
		"enable-cuda-compat":                 {args: []string{"enable-cuda-compat", "--host-driver-version=550.54"}, file: "etc/ld.so.conf.d/00-compat-driver.conf", want: "/usr/local/cuda/compat\n"},
		"chmod":                              {args: []string{"chmod", "--mode", "711", "--path", "/opt/lib"}},
		"chmod without a mode":               {args: []string{"chmod", "--path", "/opt/lib"}, code: 1, out: "--mode is missing"},
		"chmod with a mode that is none":     {args: []string{"chmod", "--path", "/opt/lib", "--mode", "4755"}, code: 1, out: "octal mode"},
		"chmod of what is missing":           {args: []string{"chmod", "--mode", "711", "--path", "/missing"}},
		"disable-device-node-modification":   {args: []string{"disable-device-node-modification"}},
		"noop":                               {args: []string{"noop"}},
		"noop with flags of a later version": {args: []string{"noop", "--new"}, code: 1, out: "not defined: -new"},
		"an unknown hook":                    {args: []string{"set-colours", "--colour", "red"}, out: `warning: unknown hook "set-colours": doing nothing`},
		"an unknown hook, quietly":           {args: []string{"--quiet", "set-colours"}},
		"an argument too many":               {args: []string{"noop", "x"}, code: 1, out: `unexpected argument "x"`},
		"the help of a hook":                 {args: []string{"chmod", "--help"}, out: "octal MODE"},
		"NVIDIA's flag":                      {args: []string{"--debug", "noop"}},
		"no hook":                            {out: "Usage: nvidia-cdi-hook"},
		"a flag that does not exist":         {args: []string{"--colour", "noop"}, code: 2, out: "nvidia-cdi-hook: flag provided but not defined: -colour; see \"nvidia-cdi-hook --help\"\n"},
		"help":                               {args: []string{"--help"}, out: "print errors only"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			b.file("rootfs/opt/lib/libx.so", "")
			b.file("rootfs/lib64/ld-linux-x86-64.so.2", "")
			b.file("rootfs/lib/ld-linux-aarch64.so.1", "")
			b.file("rootfs/usr/local/cuda/compat/libcuda.so.575.1.2", "\x7fELF")
			code, out := b.run(c.args...)
			if code != c.code || !strings.Contains(out, c.out) || c.out == "" && out != "" && !strings.Contains(out, "compatibility") {
				t.Errorf("exit code %d, want %d; output %q, want %q", code, c.code, out, c.out)
			}
			if c.file == "" {
				return
			}
			p := filepath.Join(b.dir, "rootfs", c.file)
			got, err := os.Readlink(p)
			if err != nil {
				data, _ := os.ReadFile(p)
				got = string(data)
			}
			if got != c.want {
				t.Errorf("%s = %q, want %q", c.file, got, c.want)
			}
		})
	}
}

// One process does what five do.
func TestPrepareContainerDoesAll(t *testing.T) {
	b := newBundle(t)
	b.file("rootfs/opt/lib/libx.so", "")
	b.file("rootfs/lib64/ld-linux-x86-64.so.2", "")
	b.file("rootfs/lib/ld-linux-aarch64.so.1", "")
	b.file("rootfs/usr/local/cuda/compat/libcuda.so.575.1.2", "\x7fELF")
	b.file("rootfs/dev/x", "")
	for _, minor := range []uint32{0, 3} {
		err := unix.Mknod(filepath.Join(b.dir, "rootfs/dev/nvidia"+string('0'+rune(minor))), unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor)))
		if err != nil {
			t.Skipf("this machine has no right to make device nodes: %v", err)
		}
	}
	for range 2 {
		code, out := b.run(
			"prepare-container", "--link", "libcuda.so.1::/opt/lib/libcuda.so", "--host-driver-version", "550.54",
			"--folder", "/opt/lib", "--disable-device-node-modification", "--update-application-profile",
		)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	for file, want := range map[string]string{
		"etc/ld.so.conf.d/00-nvcr-driver.conf":                          "/opt/lib\n",
		"etc/ld.so.conf.d/00-compat-driver.conf":                        "/usr/local/cuda/compat\n",
		"etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf": `{"profiles":[{"name":"_container_","settings":["EGLVisibleDGPUDevices",0x9]}],"rules":[{"pattern":[],"profile":"_container_"}]}`,
	} {
		if got, err := os.ReadFile(filepath.Join(b.dir, "rootfs", file)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", file, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "rootfs/etc/ld.so.cache")); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(filepath.Join(b.dir, "rootfs/etc/ld.so.conf.d")); err != nil || len(files) != 2 {
		t.Errorf("files in ld.so.conf.d = %v, %v", files, err)
	}
}

func TestStateFromAFile(t *testing.T) {
	b := newBundle(t)
	b.file("state.json", b.state())
	var out bytes.Buffer
	code := cdihook.Main("nvidia-cdi-hook", []string{"create-symlinks", "--container-spec", filepath.Join(b.dir, "state.json"), "--link", "a::/b"}, strings.NewReader(""), &out, &out)
	if got, err := os.Readlink(filepath.Join(b.dir, "rootfs/b")); code != 0 || got != "a" {
		t.Errorf("exit code %d, link %q, %v: %s", code, got, err, &out)
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	for name, c := range map[string]struct{ state, config, want string }{
		"no state":            {want: "read container state: standard input is empty: a hook gets its state from an OCI runtime"},
		"a state of no use":   {state: `{"pid":1}`, want: "it names no bundle"},
		"no config.json":      {state: `{"bundle":"DIR/missing"}`, want: "no such file"},
		"no root":             {state: `{"bundle":"DIR"}`, config: `{}`, want: "has no root.path"},
		"the root of a host":  {state: `{"bundle":"DIR"}`, config: `{"root":{"path":"/"}}`, want: "the host's own root"},
		"a root that is gone": {state: `{"bundle":"DIR"}`, config: `{"root":{"path":"gone"}}`, want: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			b.file("config.json", c.config)
			var out bytes.Buffer
			state := strings.NewReader(strings.ReplaceAll(c.state, "DIR", b.dir))
			code := cdihook.Main("nvidia-cdi-hook", []string{"create-symlinks", "--link", "a::/b"}, state, &out, &out)
			if code != 1 || !strings.Contains(out.String(), c.want) || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("exit code %d, want one line with %q: %s", code, c.want, &out)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if code := cdihook.Main("nvidia-cdi-hook", []string{"--help"}, nil, &out, &out); code != 0 {
		t.Errorf("exit code %d", code)
	}
	golden.Assert(t, out.String(), "help.txt")
}
