package devcgroup

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestRestricted(t *testing.T) {
	for name, tc := range map[string]struct {
		shown string
		want  bool
	}{
		"a unit of runc":                               {"DevicePolicy=strict\nDeviceAllow=char-pts rwm\nDeviceAllow=/dev/char/1:3 rwm\n", true},
		"a unit with a list":                           {"DeviceAllow=/dev/null rw\nDevicePolicy=closed\n", true},
		"a unit of a privileged container":             {"DevicePolicy=auto\nDeviceAllow=\n", false},
		"a unit whose rules systemd cannot express":    {"DevicePolicy=strict\nDeviceAllow=\n", false},
		"the same, with a version that prints no list": {"DevicePolicy=strict\n", false},
		"a version that prints nothing":                {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := restricted([]byte(tc.shown)); got != tc.want || err != nil {
				t.Errorf("restricted(%q) = %v, %v", tc.shown, got, err)
			}
		})
	}
}

func TestUnitWithAProgramOfTheRuntime(t *testing.T) {
	_, err := restricted([]byte("DevicePolicy=auto\nBPFProgram=device:/sys/fs/bpf/crun/libpod-ab_scope\n"))
	assert.ErrorContains(t, err, "use CDI")
	if _, err := restricted([]byte("DevicePolicy=auto\nBPFProgram=egress:/sys/fs/bpf/other\n")); err != nil {
		t.Error(err)
	}
}

func TestSince240(t *testing.T) {
	for shown, want := range map[string]bool{
		"systemd 252 (252.38-1~deb12u1)\n+PAM\n": true, "systemd 240\n": true, "systemd 257 (257.9-1.fc42)": true,
		"systemd 239 (239-82.el8)": false, "systemd 219": false, "systemd": false, "": false, "systemd x": false,
	} {
		if got := since240([]byte(shown)); got != want {
			t.Errorf("since240(%q) = %v", shown, got)
		}
	}
}

func TestRecordOfACgroupWithoutAUnit(t *testing.T) {
	assert.NilError(t, (Cgroup{Version: 2, Path: "/sys/fs/cgroup/docker/ab"}).Record(t.Context(), []Device{{195, 0}}))
}
