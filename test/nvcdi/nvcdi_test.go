// Package nvcdi_test compares the CDI specs of nvidia-ctk with those of nvcdi, the library of
// NVIDIA's container toolkit, on one simulated node. What nvcdi searches for comes from the
// library itself: a newer version that searches for another file fails the test.
package nvcdi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu/simtest"
)

const (
	// generate makes the test program print what nvcdi generates for the driver root that it names.
	generate = "NVCDI_DRIVER_ROOT"
	hook     = "/usr/bin/nvidia-cdi-hook"
	libs     = "usr/lib/x86_64-linux-gnu"
)

// output is what the program prints.
type output struct {
	Spec    spec
	Missing []string
}

// spec is a CDI spec, as far as it says what containers get.
type spec struct {
	Devices []struct {
		Name           string `json:"name"`
		ContainerEdits edits  `json:"containerEdits"`
	} `json:"devices"`
	ContainerEdits edits `json:"containerEdits"`
}

type edits struct {
	Env         []string `json:"env"`
	DeviceNodes []struct {
		Path string `json:"path"`
	} `json:"deviceNodes"`
	Mounts []struct {
		HostPath      string   `json:"hostPath"`
		ContainerPath string   `json:"containerPath"`
		Options       []string `json:"options"`
	} `json:"mounts"`
	Hooks []struct {
		HookName string   `json:"hookName"`
		Path     string   `json:"path"`
		Args     []string `json:"args"`
	} `json:"hooks"`
}

// record is a logger of nvcdi that records which files it does not find.
type record struct{ missing []string }

func (*record) Debugf(string, ...any) {}
func (*record) Infof(string, ...any)  {}
func (*record) Info(...any)           {}
func (*record) Tracef(string, ...any) {}
func (*record) Warning(...any)        {}
func (*record) Errorf(string, ...any) {}

func (r *record) Warningf(format string, args ...any) {
	if name, is := strings.CutPrefix(fmt.Sprintf(format, args...), "Could not locate "); is {
		name, _, _ = strings.Cut(name, ": ")
		r.missing = append(r.missing, name)
	}
}

func TestMain(m *testing.M) {
	root := os.Getenv(generate)
	if root == "" {
		os.Exit(m.Run())
	}
	if err := printSpec(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printSpec(root string) error {
	log := &record{}
	lib, err := nvcdi.New(nvcdi.WithLogger(log), nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithDriverRoot(root), nvcdi.WithDevRoot("/"))
	if err != nil {
		return fmt.Errorf("start nvcdi: %w", err)
	}
	made, err := lib.GetSpec("all")
	if err != nil {
		return fmt.Errorf("generate a spec: %w", err)
	}
	// Its type has the same form in JSON.
	text, err := json.Marshal(made.Raw())
	if err != nil {
		return err
	}
	out := output{Missing: log.missing}
	if err := json.Unmarshal(text, &out.Spec); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// of runs a program on the node, and reads the JSON that it prints.
func of[T any](t *testing.T, cmd *exec.Cmd) T {
	t.Helper()
	text, err := cmd.Output()
	if err != nil {
		if failed, is := errors.AsType[*exec.ExitError](err); is {
			t.Fatalf("%v: %s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return out
}

func theirs(t *testing.T, n *simtest.Node, root string) output {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := n.Command(t.Context(), self)
	cmd.Env = append(os.Environ(), generate+"="+root)
	return of[output](t, cmd)
}

// ours has the five hooks of NVIDIA's toolkit in place of the one that does the work of all.
func ours(t *testing.T, n *simtest.Node, root string) spec {
	t.Helper()
	return of[spec](t, n.Command(t.Context(), filepath.Join(n.Bin, "nvidia-ctk"), "cdi", "generate", "--format=json", "--driver-root="+root, "--dev-root=/",
		"--device-name-strategy=index", "--nvidia-cdi-hook-path="+hook, "--disable-hook=prepare-container"))
}

// TestContainersGetWhatNVIDIAsLibraryGivesThem has every file in the driver root that nvcdi
// searches for.
func TestContainersGetWhatNVIDIAsLibraryGivesThem(t *testing.T) {
	n := simtest.New(t, "--gpus=2", "--model=h100-80")
	n.Run("mig mode", "1", "on")
	n.Run("mig create", "1", "3g.40gb", "1g.10gb")
	root := filepath.Join(n.Root, "driver")
	first := theirs(t, n, root)
	if len(first.Missing) == 0 {
		t.Fatal("the simulated driver has every file that nvcdi searches for; is what it logs still understood?")
	}
	for _, name := range first.Missing {
		add(t, root, name)
	}
	nvidia := theirs(t, n, root)
	nvidia.Missing = slices.DeleteFunc(nvidia.Missing, ofDaemon)
	if len(nvidia.Missing) > 0 {
		t.Errorf("nvcdi does not find %q where the test has put it", nvidia.Missing)
	}
	want, got := gives(nvidia.Spec), gives(ours(t, n, root))
	for name := range want {
		want[name] = slices.DeleteFunc(want[name], func(what string) bool { return leftOut(what) != "" })
		got[name] = slices.DeleteFunc(got[name], func(what string) bool { return added(what) != "" })
		if diff := cmp.Diff(want[name], got[name]); diff != "" {
			t.Errorf("device %q gives containers something else than that of nvcdi (-nvcdi +ours):\n%s", name, diff)
		}
	}
	for name := range got {
		if want[name] == nil && addedDevice[name] == "" {
			t.Errorf("nvcdi has no device %q", name)
		}
	}
}

// gives returns what each device gives a container, and under the name "" what all do.
func gives(s spec) map[string][]string {
	out := map[string][]string{"": s.ContainerEdits.gives()}
	for _, d := range s.Devices {
		out[d.Name] = d.ContainerEdits.gives()
	}
	return out
}

func (e edits) gives() []string {
	var out []string
	for _, v := range e.Env {
		out = append(out, "env "+v)
	}
	for _, n := range e.DeviceNodes {
		out = append(out, "node "+n.Path)
	}
	for _, m := range e.Mounts {
		slices.Sort(m.Options)
		out = append(out, fmt.Sprintf("mount %s at %s, %s", m.HostPath, m.ContainerPath, strings.Join(m.Options, ",")))
	}
	for _, h := range e.Hooks {
		name := h.Args[1]
		if len(h.Args) == 2 {
			out = append(out, h.HookName+" "+name)
		}
		for i := 2; i < len(h.Args); i++ {
			word := h.Args[i]
			if !strings.Contains(word, "=") && i+1 < len(h.Args) {
				i++
				word += " " + h.Args[i]
			}
			out = append(out, fmt.Sprintf("%s %s %s", h.HookName, name, word))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leftOut returns why our specs do not have something of nvcdi's, "" if they do.
func leftOut(what string) string {
	switch {
	case strings.Contains(what, " apply-cuda-memory-limits "):
		return "limits of GPU memory by variables of the container are not supported"
	case strings.HasSuffix(what, "update-ldcache --folder /"+libs+"/vdpau"):
		return "libvdpau loads its plug-ins by their path; the folder in the loader's cache would offer them to all programs"
	case strings.HasSuffix(what, "::/"+libs+"/libGLX_indirect.so.0"):
		return "it leads to the SONAME, which leads to the library"
	}
	return ""
}

// added returns why our specs have something that nvcdi's lack, "" if they should not.
func added(what string) string {
	switch {
	case strings.HasSuffix(what, "libGLX_nvidia.so.0::/"+libs+"/libGLX_indirect.so.0"):
		return "as above"
	case strings.Contains(what, "create-symlinks --link libnvidia-egl-"):
		return "nvcdi links only libraries of the driver's version by their SONAME, and leaves these to ldconfig, which distroless images lack"
	}
	return ""
}

// addedDevice has why our specs have devices that nvcdi's lack.
var addedDevice = map[string]string{
	"1":    "a GPU in MIG mode, which the device plugin advertises whole with the strategy none",
	"all":  "as NVIDIA's nvidia-ctk adds it",
	"none": "the files of the driver, without a GPU",
}

// ofDaemon reports whether a file is a socket, which is there while a daemon of the driver runs.
func ofDaemon(name string) bool {
	return strings.HasSuffix(name, "/socket") || name == "/tmp/nvidia-mps"
}

// add puts a file into the driver root where nvcdi searches for its name or pattern.
func add(t *testing.T, root, pattern string) {
	t.Helper()
	if ofDaemon(pattern) {
		return
	}
	name := strings.ReplaceAll(pattern, "*", "1")
	switch {
	case strings.Contains(name, ".so"):
		library(t, filepath.Join(root, libs, name))
	case strings.HasSuffix(name, ".bin"):
		write(t, filepath.Join(root, "lib/firmware", name), 0o644)
	case strings.Contains(name, "/"):
		write(t, filepath.Join(root, "usr/share", name), 0o644)
	default:
		write(t, filepath.Join(root, "usr/bin", name), 0o755)
	}
}

func write(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
}

// library compiles an empty library, whose SONAME is its name.
func library(t *testing.T, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gcc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,"+filepath.Base(path), "-o", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v: %s", path, err, out)
	}
}
