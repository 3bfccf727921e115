package app

import (
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// ignoredFlags returns the flags of NVIDIA's nvidia-ctk-installer that have no effect on this
// agent. If one is set, the log says why it has no effect.
func ignoredFlags() []cli.Flag {
	const noHooks = "the agent configures runtimes in CRI-O, not hooks"
	return []cli.Flag{
		agent.Ignored("toolkit-package-type", "TOOLKIT_PACKAGE_TYPE", "the tools are static programs that run on every distribution"),
		agent.IgnoredSwitch("debug", "TOOLKIT_DEBUG", "set --log-level=debug"),
		agent.IgnoredSwitch("ignore-errors", "IGNORE_ERRORS", "the agent retries after errors"),
		agent.Ignored("dev-root-ctr-path", "DEV_ROOT_CTR_PATH", "device nodes are below the driver root, or in /dev"),
		agent.Ignored("runtime-drop-in-config-host-path", "RUNTIME_DROP_IN_CONFIG_HOST_PATH", "--runtime-drop-in-config is a path on the host"),
		agent.Ignored("runtime-config-sources", "RUNTIME_CONFIG_SOURCES", "the agent edits the config files of the engine, and checks them with the engine's program"),
		agent.Ignored("runtime-config-override", "RUNTIME_CONFIG_OVERRIDE", "NVIDIA's toolkit does not use it either"),
		agent.IgnoredSwitch("containerd-use-legacy-config", "CONTAINERD_USE_LEGACY_CONFIG", "the agent reads the version of the format from the config file", "use-legacy-config"),
		agent.Ignored("crio-hooks-dir", "CRIO_HOOKS_DIR", noHooks, "hooks-dir"),
		agent.Ignored("crio-hook-filename", "CRIO_HOOK_FILENAME", noHooks, "hook-filename"),
		agent.Ignored("crio-config-mode", "CRIO_CONFIG_MODE", noHooks, "config-mode"),
	}
}
