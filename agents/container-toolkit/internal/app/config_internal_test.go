package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/cdi"
)

func TestConfigOfTheTools(t *testing.T) {
	s := toolSettings{
		tools: "/opt/nvidia/toolkit", driverRoot: "/run/nvidia/driver", specDirs: specDirs("/run/specs"), acceptMounts: true, skipMode: true,
		runtimeDebug: "/var/log/nvidia.log", logLevel: "debug", mode: "cdi", defaultKind: "example.com/gpu", prefixes: []string{"a/", "b/"},
		runtimes: []string{"crun"}, cliDebug: "/var/log/cli.log", features: []string{"ignore-imex-channel-requests"},
	}
	text, err := s.config()
	assert.NilError(t, err)
	got, warnings, err := toolconfig.Parse(text)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v:\n%s", err, warnings, text)
	}
	want := toolconfig.Default()
	want.AcceptVariable, want.AcceptMounts = false, true
	want.CLI.Root, want.CLI.Path, want.CLI.Debug = "/run/nvidia/driver", "/opt/nvidia/toolkit/nvidia-container-cli", "/var/log/cli.log"
	want.Runtime.Debug, want.Runtime.LogLevel, want.Runtime.Mode, want.Runtime.Runtimes = "/var/log/nvidia.log", "debug", "cdi", []string{"crun"}
	want.Runtime.CDI = toolconfig.CDI{
		AnnotationPrefixes: []string{"a/", "b/"}, DefaultKind: "example.com/gpu", SpecDirs: []string{"/etc/cdi", "/var/run/cdi", "/run/specs"},
	}
	want.Hook = toolconfig.Hook{Path: "/opt/nvidia/toolkit/nvidia-container-runtime-hook", SkipModeDetection: true}
	want.CTKPath = "/opt/nvidia/toolkit/nvidia-ctk"
	want.Features.IgnoreIMEXChannelRequests = true
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
}

// A feature of the tools that is about CDI specs concerns the agent's own.
func TestOptInFeaturesOfSpecs(t *testing.T) {
	text, err := toolSettings{tools: "/t", features: []string{"disable-cuda-compat-lib-hook", "no-additional-gids-for-device-nodes"}}.config()
	assert.NilError(t, err)
	got, err := specFeatures(text)
	want := cdi.Features{NoAdditionalGIDs: true, DisabledHooks: []string{"enable-cuda-compat"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestConfigOfTheToolsHasDefaults(t *testing.T) {
	text, err := toolSettings{tools: "/usr/local/nvidia/toolkit", driverRoot: "/", specDirs: specDirs("/var/run/cdi"), acceptEnv: true}.config()
	assert.NilError(t, err)
	got, _, err := toolconfig.Parse(text)
	assert.NilError(t, err)
	want := toolconfig.Default()
	want.CLI.Root, want.CLI.Path = "/", "/usr/local/nvidia/toolkit/nvidia-container-cli"
	want.Hook.Path, want.CTKPath = "/usr/local/nvidia/toolkit/nvidia-container-runtime-hook", "/usr/local/nvidia/toolkit/nvidia-ctk"
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
}
