package containercli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/containercli"
	"outrigger.dev/pkg/gpu/simtest"
)

// TestMain is nvidia-container-cli where the test starts itself under that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nvidia-container-cli" {
		os.Exit(containercli.Main(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func run(args ...string) (stdout, stderr string, code int) {
	var out, errs strings.Builder
	code = containercli.Main(append([]string{"nvidia-container-cli"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "no command: use info, list or configure; see \"nvidia-container-cli --help\"",
		"configur":                `unknown command "configur"`,
		"--rot=/ info":            "flag provided but not defined: -rot",
		"configure --pid=1":       "name the container",
		"configure /rootfs":       "name the container",
		"configure --pid=1 /a /b": "name the container",
		"configure --pid=x /a":    `invalid value "x" for flag -pid`,
		"configure --pid=1 --ldconfig=/sbin/ldconfig /a": "--ldconfig=/sbin/ldconfig is a program of the container",
		"configure --pid=1 --ldconfig=@ldconfig /a":      "use a program of the host, as in @/sbin/ldconfig",
		"configure --pid=1 --cuda-compat-mode=hook /a":   `unknown CUDA compat mode "hook"`,
		"configure --pid=1 --mig-config=0 /a":            "--mig-config=0: the only value is all",
		"configure --pid=1 --imex-channel=9999999 /a":    `--imex-channel: "9999999" is not an IMEX channel: use a number from 0 to 1048575`,
		"--root=relative info":                           "it is not an absolute path",
		"list x":                                         `unexpected argument "x"`,
		"info x":                                         `unexpected argument "x"`,
	} {
		t.Run(line, func(t *testing.T) {
			stdout, stderr, code := run(strings.Fields(line)...)
			assert.Equal(t, code, 1)
			assert.Equal(t, stdout, "")
			assert.Assert(t, strings.Contains(stderr, want), stderr)
			assert.Equal(t, strings.Count(stderr, "\n"), 1, stderr)
		})
	}
}

// TestTheLogHasTheFoldersThatWereSearched looks for a driver where there is none: the error is
// one short line.
func TestTheLogHasTheFoldersThatWereSearched(t *testing.T) {
	root, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	_, stderr, code := run("--root="+root, "--debug="+log, "info")
	assert.Equal(t, code, 1)
	const folder = "/opt/nvidia/lib64"
	assert.Assert(t, strings.Contains(stderr, "libcuda.so.<version>, libnvidia-ml.so.<version> not found in "+root), stderr)
	assert.Assert(t, !strings.Contains(stderr, root+folder), stderr)
	text, err := os.ReadFile(log)
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(text), " searched: libcuda.so.<version>: ") && strings.Contains(string(text), root+folder), string(text))
}

// A log that nobody reads does not hold up the start of a container.
func TestALogThatNobodyReads(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, syscall.Mkfifo(pipe, 0o600))
	_, stderr, code := run("--debug", pipe, "configure", "--pid=4194305", t.TempDir())
	assert.Equal(t, code, 1)
	assert.Assert(t, strings.Contains(stderr, "open the log of --debug: open "+pipe+": no such device or address: no process reads it"), stderr)
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"", "configure", "info", "list"} {
		stdout, stderr, code := run(append(strings.Fields(command), "--help")...)
		assert.Equal(t, code, 0, stderr)
		golden.Assert(t, stdout, strings.TrimPrefix(command+"-help.golden", "-"))
	}
}

// TestLettersInOneWord has flags in each form in which people write them.
func TestLettersInOneWord(t *testing.T) {
	for _, line := range []string{
		"-kd LOG configure -cu -p 4194305 ROOT", "-k -d LOG configure -c -u -p 4194305 ROOT", "--load-kmods --debug=LOG configure -cup=4194305 ROOT",
	} {
		t.Run(line, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			_, stderr, code := run(strings.Fields(strings.NewReplacer("LOG", log, "ROOT", t.TempDir()).Replace(line))...)
			// There is no driver, or no such process: what matters is that the line is read.
			assert.Equal(t, code, 1)
			assert.Assert(t, !strings.Contains(stderr, "flag provided"), stderr)
		})
	}
}

func TestOnANode(t *testing.T) {
	n := simtest.New(t, "--gpus=2", "--model=h100-80", "--name=containercli", "--driver-version=580.95.05")
	self, err := os.Executable()
	assert.NilError(t, err)
	cli := filepath.Join(t.TempDir(), "nvidia-container-cli")
	assert.NilError(t, os.Symlink(self, cli))
	for file, args := range map[string]string{
		"info":         "info",
		"info-csv":     "info --csv",
		"list-devices": "list --device=1",
		"list-parts":   "list -bif",
	} {
		t.Run(file, func(t *testing.T) {
			out, err := n.Command(t.Context(), cli, strings.Fields(args)...).CombinedOutput()
			assert.NilError(t, err, string(out))
			golden.Assert(t, string(out), file+".golden")
		})
	}
	t.Run("empty values", func(t *testing.T) {
		without, err := n.Command(t.Context(), cli, "configure", "--dry-run", "--device=0").CombinedOutput()
		assert.NilError(t, err, string(without))
		for _, name := range []string{"require", "device", "mig-config", "mig-monitor", "imex-channel", "cuda-compat-mode"} {
			for _, value := range []string{"", " "} {
				if value == " " && name == "cuda-compat-mode" {
					continue
				}
				out, err := n.Command(t.Context(), cli, "configure", "--dry-run", "--device=0", "--"+name+"="+value).CombinedOutput()
				assert.NilError(t, err, "--%s=%q: %s", name, value, out)
				assert.Equal(t, string(out), string(without), name)
			}
		}
	})
	all, err := n.Command(t.Context(), cli, "list").Output()
	assert.NilError(t, err)
	for _, want := range []string{"/dev/nvidia0", "/dev/nvidia1", "/usr/bin/nvidia-smi", "libcuda.so.580.95.05"} {
		assert.Assert(t, strings.Contains(string(all), want), fmt.Sprintf("%s is missing in %s", want, all))
	}

	t.Run("a node whose driver is not loaded", func(t *testing.T) {
		n.Run("set", "driver=off")
		out, err := n.Command(t.Context(), cli, "info").CombinedOutput()
		assert.Assert(t, err != nil)
		assert.Assert(t, strings.Contains(string(out), "load the kernel modules nvidia and nvidia-uvm"), string(out))
	})
}
