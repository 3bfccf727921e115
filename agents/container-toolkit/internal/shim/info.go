package shim

import (
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/driverproc"
)

// Facts returns, for people, the mode and the programs that the runtime would use on this node.
// path is the PATH of the runtime.
func Facts(cfg *toolconfig.Config, path string) []request.Decision {
	out := []request.Decision{{About: "mode", Result: cfg.Runtime.Mode}}
	add := func(about, result string, err error) {
		if err != nil {
			result = err.Error()
		}
		out = append(out, request.Decision{About: about, Result: result})
	}
	runtime, err := findRuntime(cfg.Runtime.Runtimes, path, anyRuntime)
	add("low-level runtime", runtime, err)
	hook, err := FindHook(cfg.Hook.Path, path)
	add("prestart hook", hook, err)
	driver, err := driverproc.Root("").Version()
	add("driver", driver, err)
	return out
}
