package config_test

import (
	"testing"

	"outrigger.dev/pkg/config"
)

func TestRef(t *testing.T) {
	const uuid = "5d0e1b9a-0000-4000-8000-00000000000a"
	for ref, mig := range map[config.Ref]bool{
		"0": false, "15": false, "0:0": true, "3:12": true, "GPU-" + uuid: false, "MIG-" + uuid: true, "MIG-GPU-" + uuid + "/7/0": true,
	} {
		if !ref.Valid() || ref.MIG() != mig {
			t.Errorf("%s: valid %t, MIG %t, want true, %t", ref, ref.Valid(), ref.MIG(), mig)
		}
	}
	for _, ref := range []config.Ref{
		"", "all", "-1", "+1", "00", "12345", "0:", ":0", "0:0:0", "0:00", uuid, "GPU-", "GPU-" + uuid + "0", "GPU-" + uuid + "/1/0",
		"GPU-5d0e1b9a-0000-4000-8000-00000000000g", "GPU-5d0e1b9a-00000-400-8000-00000000000a", "MIG-GPU-" + uuid, "MIG-GPU-" + uuid + "/1",
		"MIG-GPU-" + uuid + "/1/", "MIG-GPU-" + uuid + "/1/0/0", "gpu-" + uuid,
	} {
		if ref.Valid() {
			t.Errorf("%q is valid", ref)
		}
	}
}
