package config_test

import (
	"strings"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/config"
)

func valid() config.Config {
	return config.Config{
		MIGStrategy:         config.MIGStrategyNone,
		ListStrategies:      []config.ListStrategy{config.ListEnvvar},
		IDStrategy:          config.IDUUID,
		CDIAnnotationPrefix: "cdi.k8s.io/",
		KubeletSocket:       "/var/lib/kubelet/device-plugins/kubelet.sock",
		CDIRoot:             "/var/run/cdi",
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*config.Config)
		// want are parts of the error; none means that there is no error.
		want []string
	}{
		"the defaults are valid": {change: func(*config.Config) {}},
		"all list strategies together are valid": {change: func(c *config.Config) {
			c.ListStrategies = []config.ListStrategy{config.ListEnvvar, config.ListCDIAnnotations, config.ListCDICRI}
		}},
		"a MIG strategy that is to come is told apart": {
			change: func(c *config.Config) { c.MIGStrategy = "mixed" },
			want:   []string{`check mig-strategy: "mixed" is not built yet`, `use "none"`},
		},
		"an unknown MIG strategy": {
			change: func(c *config.Config) { c.MIGStrategy = "some" },
			want:   []string{`check mig-strategy: unknown value "some"`},
		},
		"no list strategy": {
			change: func(c *config.Config) { c.ListStrategies = nil },
			want:   []string{"device-list-strategy: no value", "envvar, cdi-cri, cdi-annotations"},
		},
		"volume-mounts is to come": {
			change: func(c *config.Config) { c.ListStrategies = []config.ListStrategy{"volume-mounts"} },
			want:   []string{`device-list-strategy: "volume-mounts" is not built yet`},
		},
		"everything wrong is told at once": {
			change: func(c *config.Config) {
				c.ListStrategies = []config.ListStrategy{"cdi", "env"}
				c.IDStrategy = "minor"
				c.KubeletSocket = "kubelet.sock"
			},
			want: []string{`unknown value "cdi"`, `unknown value "env"`, `device-id-strategy: unknown value "minor"`, `kubelet-socket: "kubelet.sock" is not an absolute path`},
		},
		"annotations without a prefix": {
			change: func(c *config.Config) {
				c.ListStrategies = []config.ListStrategy{config.ListCDIAnnotations}
				c.CDIAnnotationPrefix = ""
			},
			want: []string{"cdi-annotation-prefix: no value"},
		},
		"a relative cdi-root matters with CDI": {
			change: func(c *config.Config) {
				c.ListStrategies = []config.ListStrategy{config.ListCDICRI}
				c.CDIRoot = "cdi"
			},
			want: []string{`cdi-root: "cdi" is not an absolute path`},
		},
		"and does not without": {change: func(c *config.Config) { c.CDIRoot = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			c := valid()
			tc.change(&c)
			err := c.Validate()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("error is %v, want %q", err, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestStrategyKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		lists        []config.ListStrategy
		cdi, onlyCDI bool
	}{
		"envvar":         {lists: []config.ListStrategy{config.ListEnvvar}},
		"cdi":            {lists: []config.ListStrategy{config.ListCDICRI, config.ListCDIAnnotations}, cdi: true, onlyCDI: true},
		"envvar and cdi": {lists: []config.ListStrategy{config.ListEnvvar, config.ListCDICRI}, cdi: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Config{ListStrategies: tc.lists}
			if c.CDI() != tc.cdi || c.OnlyCDI() != tc.onlyCDI {
				t.Errorf("CDI, OnlyCDI = %v, %v, want %v, %v", c.CDI(), c.OnlyCDI(), tc.cdi, tc.onlyCDI)
			}
		})
	}
}
