package app

import (
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// toolSettings holds the settings of the tools that the agent's flags set. An empty string
// or list keeps the default.
type toolSettings struct {
	// tools is the folder of the tools on the host.
	tools             string
	driverRoot        string
	specDirs          []string
	acceptEnv         bool
	acceptMounts      bool
	acceptAnnotations bool
	skipMode          bool
	runtimeDebug      string
	logLevel          string
	mode              string
	defaultKind       string
	prefixes          []string
	runtimes          []string
	cliDebug          string
	features          []string
}

// config returns the config.toml of the tools. The same settings always result in the same text.
func (s toolSettings) config() ([]byte, error) {
	type change = toolconfig.Change
	text := func(key, value string) change { return change{Key: key, Value: value} }
	list := func(key string, values []string) change { return text(key, strings.Join(values, ",")) }
	changes := []change{
		text("accept-nvidia-visible-devices-envvar-when-unprivileged", strconv.FormatBool(s.acceptEnv)),
		text("accept-nvidia-visible-devices-as-volume-mounts", strconv.FormatBool(s.acceptMounts)),
		text("accept-cdi-annotations-when-unprivileged", strconv.FormatBool(s.acceptAnnotations)),
		text("nvidia-container-runtime-hook.skip-mode-detection", strconv.FormatBool(s.skipMode)),
		text("nvidia-container-cli.root", s.driverRoot),
		text("nvidia-container-cli.path", s.tools+"/nvidia-container-cli"),
		text("nvidia-container-runtime-hook.path", s.tools+"/nvidia-container-runtime-hook"),
		text("nvidia-ctk.path", s.tools+"/nvidia-ctk"),
		list("nvidia-container-runtime.modes.cdi.spec-dirs", s.specDirs),
		text("nvidia-container-runtime.debug", s.runtimeDebug),
		text("nvidia-container-runtime.log-level", s.logLevel),
		text("nvidia-container-runtime.mode", s.mode),
		text("nvidia-container-runtime.modes.cdi.default-kind", s.defaultKind),
		list("nvidia-container-runtime.modes.cdi.annotation-prefixes", s.prefixes),
		list("nvidia-container-runtime.runtimes", s.runtimes),
		text("nvidia-container-cli.debug", s.cliDebug),
	}
	var set []change
	for _, c := range changes {
		if c.Value != "" {
			set = append(set, c)
		}
	}
	for _, f := range s.features {
		set = append(set, text("features."+f, "true"))
	}
	return toolconfig.Edit(toolconfig.DefaultFile(), set...)
}
