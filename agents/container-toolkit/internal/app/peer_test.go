package app_test

import (
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// peer has the flags of NVIDIA's nvidia-ctk-installer until 1.19, which was named nvidia-toolkit before:
// cmd/nvidia-ctk-installer of NVIDIA/nvidia-container-toolkit.
const peer = `n:no-daemon :no-runtime-config p:enable-nri-plugin :nri-plugin-index= :nri-socket= :nri-namespace= r:runtime=
	:toolkit-install-dir,root,toolkit-root= :toolkit-source-root,source-root= :toolkit-package-type= :pid-file= :debug
	:driver-root,nvidia-driver-root= :driver-root-ctr-path= :dev-root= :dev-root-ctr-path=
	:nvidia-container-runtime.debug,nvidia-container-runtime-debug=
	:nvidia-container-runtime.log-level,nvidia-container-runtime-debug-log-level=
	:nvidia-container-runtime.mode,nvidia-container-runtime-mode=
	:nvidia-container-runtime.modes.cdi.default-kind=
	:nvidia-container-runtime.modes.cdi.annotation-prefixes,nvidia-container-runtime-modes.cdi.annotation-prefixes=
	:nvidia-container-runtime.runtimes= :nvidia-container-runtime-hook.skip-mode-detection
	:nvidia-container-cli.debug,nvidia-container-cli-debug=
	:accept-nvidia-visible-devices-envvar-when-unprivileged :accept-nvidia-visible-devices-as-volume-mounts
	:cdi-enabled,enable-cdi :cdi-output-dir= :cdi-kind= :create-device-nodes= :ignore-errors :opt-in-features=
	:config= :drop-in-config= :executable-path= :socket= :restart-mode= :enable-cdi-in-runtime :host-root=
	:runtime-name,nvidia-runtime-name,runtime-class= :set-as-default
	:use-legacy-config :runtime-type= :runtime-config-override= :hooks-dir= :hook-filename= :config-mode=`

func TestFlagsOfThePeer(t *testing.T) {
	agenttest.Program(t, app.App).Accepts(t, cmdlinetest.Peer{Flags: map[string]string{"": peer}, First: "--help"})
}
