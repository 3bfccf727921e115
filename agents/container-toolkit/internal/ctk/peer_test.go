package ctk_test

import (
	"io"
	"strings"
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/ctk"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// peer has the flags of NVIDIA's nvidia-ctk 1.19 by their commands: cmd/nvidia-ctk of
// NVIDIA/nvidia-container-toolkit. Its library accepts the global flags after each command too. Package
// cdihook tests the command hook.
func peer() map[string]string {
	return map[string]string{
		"":        "d:debug :quiet :config=",
		"info":    "",
		"runtime": "",
		"runtime configure": ":dry-run :runtime= :config= :drop-in-config= :executable-path= :config-mode= :config-source= :oci-hook-path= " +
			":nvidia-runtime-name= :nvidia-runtime-path,runtime-path= :nvidia-runtime-hook-path= :nvidia-set-as-default,set-as-default :cdi.enabled,cdi.enable,enable-cdi",
		"cdi": "",
		"cdi generate": ":config-search-path= :output= :format= :mode,discovery-mode= :dev-root= :device-name-strategy= :driver-root= :library-search-path= " +
			":nvidia-cdi-hook-path,nvidia-ctk-path= :ldconfig-path= :vendor,cdi-vendor= :class,cdi-class= :csv.file= :csv.ignore-pattern= :csv.compat-container-root= " +
			":disable-hook,disable-hooks= :enable-hook,enable-hooks= :feature-flag,feature-flags= :no-all-device :device-id,device-ids,device,devices=",
		"cdi list":                        ":spec-dir=",
		"cdi transform":                   "",
		"cdi transform root":              ":from= :to= :input= :output= :relative-to=",
		"system":                          "",
		"system create-device-nodes":      ":driver-root,root= :dev-root= :control-devices :dry-run",
		"system create-dev-char-symlinks": ":dev-char-path= :driver-root= :create-all :load-kernel-modules :create-device-nodes :dry-run",
		"config":                          "c:config-file,config= :set= i:in-place o:output=",
		"config default":                  "o:output=",
		"config create-default":           "o:output=",
		"config generate-default":         "o:output=",
	}
}

// valueOf returns a value that a flag accepts.
func valueOf(name string) string {
	values := map[string]string{
		"format": "json", "mode": "nvml", "device-name-strategy": "uuid", "relative-to": "container", "runtime": "crio", "config-mode": "config",
		"config-source": "command", "set": "disable-require=true", "csv.file": "", "csv.ignore-pattern": "", "csv.compat-container-root": "",
		"oci-hook-path": "", "nvidia-runtime-hook-path": "",
	}
	if v, ok := values[name]; ok {
		return v
	}
	return "/0"
}

func TestFlagsOfThePeer(t *testing.T) {
	p := cmdlinetest.Program{Name: "nvidia-ctk", Run: func(args []string, stdout, stderr io.Writer) int {
		return ctk.Main(args, strings.NewReader(""), stdout, stderr)
	}}
	p.Accepts(t, cmdlinetest.Peer{Flags: peer(), Everywhere: true, Value: valueOf, First: "--help"})
}
