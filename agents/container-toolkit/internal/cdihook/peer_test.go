package cdihook_test

import (
	"io"
	"strings"
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// peer has the flags of NVIDIA's nvidia-cdi-hook 1.19 by their hooks: cmd/nvidia-cdi-hook of
// NVIDIA/nvidia-container-toolkit. Its library accepts the global flags after each hook too: those of
// nvidia-cdi-hook, and for "nvidia-ctk hook" those of nvidia-ctk.
func peer() map[string]string {
	return map[string]string{
		"create-symlinks":                  ":link= :container-spec=",
		"update-ldcache":                   ":folder= :ldconfig-path= :container-spec=",
		"chmod":                            ":path= :mode= :container-spec=",
		"enable-cuda-compat":               ":host-driver-version= :host-cuda-version= :cuda-compat-container-root= :container-spec=",
		"disable-device-node-modification": ":container-spec=",
		"update-application-profile":       ":container-spec=",
	}
}

func TestFlagsOfThePeer(t *testing.T) {
	values := map[string]string{"link": "a::/b", "mode": "755"}
	flags := peer()
	for name, global := range map[string]string{"nvidia-cdi-hook": "d:debug :quiet", "nvidia-ctk hook": "d:debug :quiet :config="} {
		flags[""] = global
		p := cmdlinetest.Program{Name: name, Run: func(args []string, stdout, stderr io.Writer) int {
			return cdihook.Main(args[0], args[1:], strings.NewReader(""), stdout, stderr)
		}}
		p.Accepts(t, cmdlinetest.Peer{Flags: flags, Everywhere: true, Last: "--help", Value: func(flag string) string {
			if v, ok := values[flag]; ok {
				return v
			}
			return "/0"
		}})
	}
}
