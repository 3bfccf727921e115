// Package attack is what a hostile image does to the tools that prepare a container: each
// published vulnerability of NVIDIA's toolkit is a test. Nothing outside of the root file
// system may be created, changed or read.
//
// The tests run our tools, or those in the folder ATTACK_BIN: anybody can compare.
// ATTACK_RUNS is how often a tool runs against files that change while it works.
package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// runs is how often a race is tried.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ATTACK_RUNS")
	if text == "" {
		return 50
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ATTACK_RUNS = %q, want a number", text)
	}
	return n
}

// victim is a container with a hostile image, and files of the host beside it that must
// stay as they are: canaries.
type victim struct {
	testing.TB
	dir string
	// watch is an inotify instance on the canaries.
	watch  int
	before map[string]string
}

const (
	libDir    = "usr/lib/x86_64-linux-gnu"
	canaryLib = "libcanary.so.1"
)

// newVictim makes an image like Debian's. The caller makes it hostile, then calls arm.
func newVictim(t testing.TB) *victim {
	t.Helper()
	v := &victim{TB: t, dir: t.TempDir()}
	v.must(os.Chmod(v.dir, 0o755))
	v.file("bundle/config.json", `{"ociVersion":"1.0.2","root":{"path":"rootfs"},"process":{"env":[]}}`)
	v.file("canary/file", "keep\n")
	v.file("canary/conf.conf", "/canary\n")
	v.file("canary/lib/"+canaryLib, "\x7fELF")
	v.file("canary/nvidia/params", "ModifyDeviceFiles: 1\n")
	for name, content := range map[string]string{
		"etc/debian_version":                       "12.5\n",
		"etc/ld.so.conf":                           "include /etc/ld.so.conf.d/*.conf\n",
		"etc/ld.so.conf.d/libc.conf":               "/usr/local/lib\n",
		"lib64/ld-linux-x86-64.so.2":               "",
		"lib/ld-linux-aarch64.so.1":                "",
		libDir + "/libcuda.so.580.95.05":           "\x7fELF",
		"usr/local/cuda/compat/libcuda.so.999.1.2": "\x7fELF",
		"proc/driver/nvidia/params":                "ModifyDeviceFiles: 1\n",
		"dev/null":                                 "",
	} {
		v.image(name, content)
	}
	return v
}

func (v *victim) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

func (v *victim) file(name, content string) {
	v.Helper()
	p := filepath.Join(v.dir, name)
	v.must(os.MkdirAll(filepath.Dir(p), 0o755))
	v.must(os.WriteFile(p, []byte(content), 0o644))
}

func (v *victim) rootfs(name string) string { return filepath.Join(v.dir, "bundle/rootfs", name) }

func (v *victim) image(name, content string) {
	v.Helper()
	v.file(filepath.Join("bundle/rootfs", name), content)
}

// link puts a link in the place of a file or folder of the image.
func (v *victim) link(target, name string) {
	v.Helper()
	v.must(os.RemoveAll(v.rootfs(name)))
	v.must(os.MkdirAll(filepath.Dir(v.rootfs(name)), 0o755))
	v.must(os.Symlink(target, v.rootfs(name)))
}

// escape returns ways to name a canary from a link in the image.
func (v *victim) escape(canary string) []string {
	outside := filepath.Join(v.dir, "canary", canary)
	return []string{
		outside,
		"../../../../../../../../../../../../.." + outside,
		"/proc/1/root" + outside,
		"/proc/self/root" + outside,
		"/proc/self/cwd/../../canary/" + canary,
	}
}

// arm remembers the files of the host, and watches them.
func (v *victim) arm() {
	v.Helper()
	v.before = v.host()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	v.must(err)
	v.watch = fd
	v.Cleanup(func() { unix.Close(fd) })
	v.must(filepath.WalkDir(filepath.Join(v.dir, "canary"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_, err = unix.InotifyAddWatch(fd, p, unix.IN_ALL_EVENTS)
		}
		return err
	}))
	// Walking has opened them.
	v.touched()
}

// host returns all files beside the root file system.
func (v *victim) host() map[string]string {
	v.Helper()
	out := map[string]string{}
	v.must(filepath.WalkDir(v.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == v.rootfs("") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content = string(data)
		}
		out[p] = fmt.Sprintf("%v %d:%d %d %s", info.Mode(), st.Uid, st.Gid, st.Ino, content)
		return nil
	}))
	return out
}

// touched returns the canaries that were opened, read or changed since the last call.
func (v *victim) touched() []string {
	v.Helper()
	var out []string
	b := make([]byte, 64<<10)
	for {
		n, err := unix.Read(v.watch, b)
		if err == unix.EAGAIN || n <= 0 {
			return out
		}
		v.must(err)
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			mask := uint32(b[at+4]) | uint32(b[at+5])<<8 | uint32(b[at+6])<<16 | uint32(b[at+7])<<24
			size := int(b[at+12]) | int(b[at+13])<<8
			name := string(bytes.TrimRight(b[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+size], "\x00"))
			out = append(out, fmt.Sprintf("%q %#x", name, mask))
			at += unix.SizeofInotifyEvent + size
		}
	}
}

// check fails if anything outside was created, changed or read.
func (v *victim) check() {
	v.Helper()
	if touched := v.touched(); len(touched) > 0 {
		v.Errorf("canaries were touched: %v", touched)
	}
	if d := cmp.Diff(v.before, v.host()); d != "" {
		v.Errorf("files of the host changed:\n%s", d)
	}
	v.touched()
}

func (v *victim) state() []byte {
	v.Helper()
	data, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "id": "victim", "status": "creating", "pid": os.Getpid(), "bundle": filepath.Join(v.dir, "bundle"),
	})
	v.must(err)
	return data
}

// tool returns a command of a tool as runc starts a createContainer hook: in a mount
// namespace of the container, with the root file system as working folder.
func (v *victim) tool(name string, args ...string) *exec.Cmd {
	v.Helper()
	path := filepath.Join(os.Getenv(toolsVariable), name)
	if _, err := os.Stat(path); err != nil {
		v.Skipf("not comparable: this machine has no %s: %v", path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	v.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = v.rootfs("")
	cmd.Env = []string{"NVIDIA_CTK_DEBUG=false"}
	cmd.Stdin = bytes.NewReader(v.state())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	return cmd
}

// hooks returns the arguments of each hook that writes, and of the one that does all. A tool of others
// can lack some of them. Such a hook is not comparable: it neither escapes nor resists.
func hooks(t testing.TB) map[string][]string {
	t.Helper()
	path := filepath.Join(os.Getenv(toolsVariable), "nvidia-cdi-hook")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("not comparable: this machine has no %s: %v", path, err)
	}
	help, err := exec.CommandContext(t.Context(), path, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v: %s", path, err, help)
	}
	all := allHooks()
	maps.DeleteFunc(all, func(hook string, _ []string) bool {
		if slices.Contains(strings.FieldsFunc(string(help), func(r rune) bool { return unicode.IsSpace(r) || r == ',' }), hook) {
			return false
		}
		if os.Getenv(ownVariable) != "" {
			t.Fatalf("%s has no command %s", path, hook)
		}
		t.Logf("not comparable: %s has no command %s", path, hook)
		return true
	})
	return all
}

// prepare returns the arguments of the hook that does all.
func prepare(t testing.TB) []string {
	t.Helper()
	args := hooks(t)["prepare-container"]
	if args == nil {
		t.Skip("not comparable: the tool has no command prepare-container")
	}
	return args
}

func allHooks() map[string][]string {
	links := []string{"--link", "libcuda.so.1::/" + libDir + "/libcuda.so", "--link", "../a::/" + libDir + "/gbm/nvidia-drm_gbm.so"}
	folders := []string{"--folder", "/" + libDir, "--folder", "/opt/driver/lib"}
	compat := []string{"--host-driver-version=580.95.05"}
	all := append(append(append([]string{"prepare-container"}, links...), compat...), folders...)
	return map[string][]string{
		"prepare-container":                append(all, "--disable-device-node-modification", "--update-application-profile"),
		"create-symlinks":                  append([]string{"create-symlinks"}, links...),
		"enable-cuda-compat":               append([]string{"enable-cuda-compat"}, compat...),
		"update-ldcache":                   append([]string{"update-ldcache"}, folders...),
		"disable-device-node-modification": {"disable-device-node-modification"},
		"update-application-profile":       {"update-application-profile"},
		"chmod":                            {"chmod", "--mode", "700", "--path", "/" + libDir, "--path", "/opt/driver/lib"},
	}
}

// run runs a hook. A hook may refuse a hostile image; it must not crash.
func (v *victim) run(args ...string) bool {
	v.Helper()
	return v.finish(v.tool("nvidia-cdi-hook", args...))
}

func (v *victim) finish(cmd *exec.Cmd) bool {
	v.Helper()
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "goroutine ") || cmd.ProcessState != nil && cmd.ProcessState.ExitCode() < 0 {
		v.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
	return err == nil
}
