package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config"
)

func loadFork(value string) (config.Config, error) {
	return config.Load(config.Explicit{"resource-config": {value}}, nil, "")
}

func TestResourceConfig(t *testing.T) {
	share := func(name, rename string, replicas int) config.Share {
		return config.Share{Name: "nvidia.com/" + name, Rename: "nvidia.com/" + rename, Replicas: replicas}
	}
	for value, want := range map[string][]config.Share{
		"":                   nil,
		"gpu:sharedgpu:4":    {share("gpu", "sharedgpu", 4)},
		"mig-3g.20gb:gpu:1":  {share("mig-3g.20gb", "gpu", 1)},
		"gpu:gpu-mem-gb:-1":  {share("gpu", "gpu-mem-gb", config.AutoReplicas)},
		"gpu:fast":           {share("gpu", "fast", 1)},
		"gpu":                {share("gpu", "gpu", 1)},
		" gpu : a : 2 , , ":  {share("gpu", "a", 2)},
		"nvidia.com/gpu:a:2": {share("gpu", "a", 2)},
		"mig-3g.20gb:small:2,mig-1g.10gb.me:small:1,gpu:gpu:2": {
			share("mig-3g.20gb", "small", 2), share("mig-1g.10gb.me", "small", 1), share("gpu", "gpu", 2),
		},
	} {
		t.Run(value, func(t *testing.T) {
			c, err := loadFork(value)
			assert.NilError(t, err)
			if diff := cmp.Diff(want, c.Sharing.Shares); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			if c.Sharing.FailRequestsGreaterThanOne {
				t.Error("a request for two replicas would fail")
			}
		})
	}
}

func TestBadResourceConfig(t *testing.T) {
	const replicas = "must be an integer of at least 1, or -1 for one replica for each 1000 MiB of memory"
	for value, want := range map[string][]string{
		"gpu:a:0,mig-1g.5gb:b:-2,mig-2g.10gb:c:x,mig-3g.20gb:d:": {
			`flag --resource-config: entry 1, "gpu:a:0": invalid replicas "0": ` + replicas,
			`flag --resource-config: entry 2, "mig-1g.5gb:b:-2": invalid replicas "-2": ` + replicas,
			`flag --resource-config: entry 3, "mig-2g.10gb:c:x": invalid replicas "x": ` + replicas,
			`flag --resource-config: entry 4, "mig-3g.20gb:d:": invalid replicas "": ` + replicas,
		},
		"gpu:a:99999999999999999999": {
			`flag --resource-config: entry 1, "gpu:a:99999999999999999999": invalid replicas "99999999999999999999": ` + replicas,
		},
		"gpu:a:2,,nvidia.com/gpu:b:3": {`flag --resource-config: entry 3, "nvidia.com/gpu:b:3": nvidia.com/gpu is already in entry 1`},
		"gpu:a:2:3":                   {`flag --resource-config: entry 1, "gpu:a:2:3": too many parts: must be <original>[:<new>[:<replicas>]], like gpu:sharedgpu:4`},
		"gpu::4":                      {`flag --resource-config: entry 1, "gpu::4": invalid name "": ` + nameRule},
		"gpu:Shared GPU:4":            {`flag --resource-config: entry 1, "gpu:Shared GPU:4": invalid name "Shared GPU": ` + nameRule},
		"gpu:" + strings.Repeat("a", 53): {
			`flag --resource-config: entry 1, "gpu:` + strings.Repeat("a", 53) + `": invalid name "` + strings.Repeat("a", 53) + `": ` + nameRule,
		},
	} {
		t.Run(value, func(t *testing.T) {
			_, err := loadFork(value)
			wantErrors(t, want, err)
		})
	}
}
