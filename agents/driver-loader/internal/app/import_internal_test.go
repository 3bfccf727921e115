package app

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

// TestTheDriverOfThePodIsDesired imports the driver of a pod, and then another driver, as the command import does.
func TestTheDriverOfThePodIsDesired(t *testing.T) {
	const guest, other = "570.86.15", "590.10.01"
	guests := payloadtest.Container(t, payloadtest.Driver{Version: one, Suffix: "-grid"}, payloadtest.Driver{Version: guest, Suffix: "-grid"})
	bin := t.TempDir()
	payloadtest.Write(t, filepath.Join(bin, "vgpu-util"), "#!/bin/sh\n[ \"$1\" = count ] && echo count=1 || echo version="+guest+"-grid\n", 0o755)
	t.Setenv("PATH", bin)
	for name, test := range map[string]struct {
		payload, version string
		match            bool
		want             string
	}{
		"no version is named":             {payloadtest.Container(t, payloadtest.Driver{Version: one}), "", false, one},
		"another version is named":        {payloadtest.Container(t, payloadtest.Driver{Version: one}), other, false, other},
		"the version in the image is":     {guests, one + "-grid", false, one + "-grid"},
		"the host has another version":    {guests, one + "-grid", true, guest + "-grid"},
		"the image has no virtual GPU":    {payloadtest.Container(t, payloadtest.Driver{Version: one}), one, true, one},
		"no payload, and no version":      {"", "", false, other},
		"no payload, and a named version": {"", other, false, other},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings{payload: test.payload, machine: loadertest.Machine, disableVGPUCheck: !test.match}
			s.config.Store = t.TempDir()
			s.desired.Version = test.version
			if test.payload != "" {
				assert.NilError(t, s.importPayload(t.Context()))
			}
			_, err := s.store().Import(t.Context(), payloadtest.Driver{Version: other}.Folder(t))
			assert.NilError(t, err)
			all, err := s.store().List()
			assert.NilError(t, err)
			if got := (loader.Observation{Payloads: all}).Desired(s.desired); got.Version != test.want {
				t.Errorf("%+v, want %s", got, test.want)
			}
		})
	}
}
