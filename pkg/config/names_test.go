package config_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

func TestProfilesHaveTheResourcesOfNVIDIAsPlugin(t *testing.T) {
	for profile, want := range map[string]string{
		"1g.5gb":         "nvidia.com/mig-1g.5gb",
		"1c.3g.20gb":     "nvidia.com/mig-1c.3g.20gb",
		"1g.5gb+me":      "nvidia.com/mig-1g.5gb.me",
		"1g.24gb+gfx":    "nvidia.com/mig-1g.24gb.gfx",
		"2g.47gb-me":     "nvidia.com/mig-2g.47gb-me",
		"1g.24gb+me.all": "nvidia.com/mig-1g.24gb.me.all",
	} {
		p, err := gpu.ParseProfile(profile)
		assert.NilError(t, err)
		if got := config.MIGResource(p); got != want {
			t.Errorf("MIGResource(%s) = %s, want %s", profile, got, want)
		}
		if !config.IsMIGResource(want) {
			t.Errorf("IsMIGResource(%s) = false", want)
		}
	}
	if got := config.MIGResource(gpu.Profile{}); got != "" {
		t.Errorf("MIGResource() of no profile = %s, want nothing", got)
	}
	for _, name := range []string{
		"", "nvidia.com/gpu", "nvidia.com/mig-", "nvidia.com/mig-large", "nvidia.com/mig-1g.5gb+me",
		"mig-1g.5gb", "1g.5gb", "nvidia.com/mig-1g.5gb.you", "nvidia.com/mig-manager", "nvidia.com/mig-3c.1g.5gb",
	} {
		if config.IsMIGResource(name) {
			t.Errorf("IsMIGResource(%q) = true", name)
		}
	}
}
