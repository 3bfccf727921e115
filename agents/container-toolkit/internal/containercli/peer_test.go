package containercli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/containercli"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// peer has the flags of NVIDIA's nvidia-container-cli 1.19 by their commands: main.c, info.c, list.c
// and configure.c below src/cli of NVIDIA/libnvidia-container. Each entry has the letter, if there is
// one, the name, and "=" if the flag has a value, which is in brackets if it can be missing. argp of
// the C library adds the last three to each command.
func peer() map[string]string {
	const argp = " ?:help :usage V:version"
	return map[string]string{
		"":          "d:debug= k:load-kmods n:no-pivot u:user[=] r:root= l:ldcache= :no-create-imex-channels" + argp,
		"info":      ":csv" + argp,
		"list":      "d:device= l:libraries b:binaries i:ipcs f:firmwares :compat32 :mig-config= :mig-monitor= :imex-channel=" + argp,
		"configure": "p:pid= d:device= r:require= l:ldconfig= c:compute u:utility v:video g:graphics D:display n:ngx :compat32 :mig-config= :mig-monitor= :imex-channel= :no-cgroups :no-devbind :no-gsp-firmware :no-persistenced :no-fabricmanager :cuda-compat-mode=" + argp,
	}
}

// valueOf returns a value that each flag accepts.
func valueOf(name string) string {
	switch name {
	case "pid":
		return "4194305"
	case "ldconfig":
		return "@/sbin/ldconfig"
	case "cuda-compat-mode":
		return "ldconfig"
	case "mig-config", "mig-monitor":
		return "all"
	case "require":
		return "cuda>=1"
	default:
		return "0"
	}
}

// Each flag of NVIDIA's program is a flag here, in each form in which the C library accepts it.
func TestFlagsOfThePeer(t *testing.T) {
	// --usage ends the program before the command runs.
	cmdlinetest.Program{Name: "nvidia-container-cli", Run: containercli.Main}.Accepts(t, cmdlinetest.Peer{Flags: peer(), Value: valueOf, Last: "--usage", Glued: true})
	for command, list := range peer() {
		help, _, _ := run(append(strings.Fields(command), "--help")...)
		for _, f := range cmdlinetest.PeerFlags(list) {
			line := "--" + f.Names[0]
			if f.Letter != "" {
				line = "-" + f.Letter + ", " + line
			}
			switch {
			case f.Value:
				line += "="
			case f.Optional:
				line += "[="
			default:
				line += "\n"
			}
			if !strings.Contains(help, "  "+line) {
				t.Errorf("%q has no %q:\n%s", command, line, help)
			}
		}
	}
}

func TestFormsOfFlags(t *testing.T) {
	for line, want := range map[string]string{
		"-?":                                    "Usage: nvidia-container-cli [FLAGS] COMMAND\n\n",
		"--usage":                               "Usage: nvidia-container-cli [FLAGS] COMMAND\n",
		"-u --usage":                            "Usage: nvidia-container-cli [FLAGS] COMMAND\n",
		"-u0:0 --usage":                         "Usage: nvidia-container-cli [FLAGS] COMMAND\n",
		"--user info --usage":                   "Usage: nvidia-container-cli info [FLAGS]\n",
		"-ku info --usa":                        "Usage: nvidia-container-cli info [FLAGS]\n",
		"--load -k --deb x --vers":              "cli-version: ",
		"info -V":                               "cli-version: ",
		"configure /r --dev all --no-d --usage": "Usage: nvidia-container-cli configure [FLAGS] ROOTFS\n",
		"configure -cup1 /r --usage":            "Usage: nvidia-container-cli configure [FLAGS] ROOTFS\n",
		"configure --usage -- /r --nonsense":    "Usage: nvidia-container-cli configure [FLAGS] ROOTFS\n",
	} {
		stdout, stderr, code := run(strings.Fields(line)...)
		if code != 0 || !strings.HasPrefix(stdout, want) {
			t.Errorf("%q = %d, %q, %q, want %q", line, code, stdout, stderr, want)
		}
	}
	for line, want := range map[string]string{
		"configure --no-p --usage": "",
		"configure --no- /r":       "configure: flag --no- is ambiguous: --no-cgroups, --no-devbind, --no-fabricmanager",
		"configure -cx /r":         "configure: flag provided but not defined: -x",
		"--root":                   "flag needs an argument: --root",
		"info --csv=x":             `invalid boolean value "x"`,
	} {
		if _, stderr, code := run(strings.Fields(line)...); (code != 0) != (want != "") || !strings.Contains(stderr, want) {
			t.Errorf("%q = %d, %q, want %q", line, code, stderr, want)
		}
	}
}

// The log can be a stream of the process, also if it is a pipe or a file.
func TestTheLogIsAStandardStream(t *testing.T) {
	self, err := os.Executable()
	assert.NilError(t, err)
	cli := filepath.Join(t.TempDir(), "nvidia-container-cli")
	assert.NilError(t, os.Symlink(self, cli))
	root := t.TempDir()
	for _, stream := range []string{"/dev/stderr", "/dev/stdout"} {
		var text strings.Builder
		cmd := exec.CommandContext(t.Context(), cli, "--root="+root, "-d", stream, "info")
		cmd.Stdout, cmd.Stderr = &text, &text
		if cmd.Run() == nil || !strings.Contains(text.String(), " searched: libcuda.so.<version>: ") {
			t.Errorf("-d %s prints %s", stream, text.String())
		}
	}
}
