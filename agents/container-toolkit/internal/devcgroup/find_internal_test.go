package devcgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/mountinfo"
)

const (
	v1Mounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime shared:3 - cgroup cgroup rw,devices
`
	v2Mounts     = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	hybridMounts = v1Mounts + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)

func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		cgroup, mounts string
		want           Cgroup
		err            string
	}{
		"version 1, driver cgroupfs": {
			cgroup: "5:devices:/docker/ab\n1:name=systemd:/docker/ab\n", mounts: v1Mounts,
			want: Cgroup{1, "/sys/fs/cgroup/devices/docker/ab", ""},
		},
		"version 1, driver systemd": {
			cgroup: "5:devices:/system.slice/docker-ab.scope\n", mounts: v1Mounts,
			want: Cgroup{1, "/sys/fs/cgroup/devices/system.slice/docker-ab.scope", "docker-ab.scope"},
		},
		"version 1, with other controllers in one hierarchy": {
			cgroup: "5:cpu,devices:/a\n", mounts: "36 31 0:33 / /cg rw - cgroup cgroup rw,cpu,devices\n",
			want: Cgroup{1, "/cg/a", ""},
		},
		"both versions: the controller is in version 1": {
			cgroup: "5:devices:/a\n0::/b\n", mounts: hybridMounts,
			want: Cgroup{1, "/sys/fs/cgroup/devices/a", ""},
		},
		"both versions: version 1 without devices": {
			cgroup: "1:name=systemd:/a\n0::/b\n", mounts: hybridMounts,
			want: Cgroup{2, "/sys/fs/cgroup/unified/b", ""},
		},
		"version 2, driver systemd": {
			cgroup: "0::/kubepods.slice/kubepods-pod1.slice/cri-ab.scope\n", mounts: v2Mounts,
			want: Cgroup{2, "/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-ab.scope", "cri-ab.scope"},
		},
		"a cgroup below that of the unit, as crun makes": {
			cgroup: "0::/user.slice/a.scope/machine.slice/libpod-ab.scope/container\n", mounts: v2Mounts,
			want: Cgroup{2, "/sys/fs/cgroup/user.slice/a.scope/machine.slice/libpod-ab.scope/container", "libpod-ab.scope"},
		},
		"a unit whose name systemd escapes": {
			cgroup: "0::/system.slice/_cpu.scope\n", mounts: v2Mounts,
			want: Cgroup{2, "/sys/fs/cgroup/system.slice/_cpu.scope", "cpu.scope"},
		},
		"a colon and a space in the name": {
			cgroup: "0::/a b:c\n", mounts: v2Mounts,
			want: Cgroup{2, "/sys/fs/cgroup/a b:c", ""},
		},
		"an engine in a container, without a cgroup namespace": {
			cgroup: "0::/docker/outer/docker/inner\n", mounts: "29 23 0:26 /docker/outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			want: Cgroup{2, "/sys/fs/cgroup/docker/inner", ""},
		},
		"a second mount has the cgroup": {
			cgroup: "0::/b/c\n", mounts: "1 1 0:26 /bb /x rw - cgroup2 cgroup2 rw\n2 1 0:26 /b /with\\040space rw - cgroup2 cgroup2 rw\n",
			want: Cgroup{2, "/with space/c", ""},
		},
		"a mount without a source": {
			cgroup: "0::/b\n", mounts: "29 23 0:26 / /sys/fs/cgroup rw - cgroup2  rw\n",
			want: Cgroup{2, "/sys/fs/cgroup/b", ""},
		},
		"the cgroup of the engine itself": {
			cgroup: "0::/\n", mounts: v2Mounts, want: Cgroup{2, "/sys/fs/cgroup", ""},
		},
		"outside of the cgroup namespace": {
			cgroup: "0::/../other\n", mounts: v2Mounts, err: "outside of the cgroup namespace",
		},
		"not mounted": {
			cgroup: "0::/a\n", mounts: "1 1 0:1 / / rw - ext4 /dev/sda rw\n", err: "is not mounted",
		},
		"mounted without the cgroup": {
			cgroup: "0::/a\n", mounts: "1 1 0:26 /b /x rw - cgroup2 cgroup2 rw\n", err: "no mount has this cgroup; /b is mounted at /x",
		},
		"no cgroups at all": {cgroup: "", mounts: v2Mounts, err: "has no cgroup for devices"},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			for file, text := range map[string]string{"12/cgroup": tc.cgroup, "self/mountinfo": tc.mounts} {
				p := filepath.Join(proc, file)
				assert.NilError(t, os.MkdirAll(filepath.Dir(p), 0o755))
				assert.NilError(t, os.WriteFile(p, []byte(text), 0o644))
			}
			got, err := Find(proc, 12)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, got, tc.want)
		})
	}
}

func TestFindProcessThatEnded(t *testing.T) {
	_, err := Find(t.TempDir(), 12)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "process 12")
}

func FuzzFind(f *testing.F) {
	f.Add("5:devices:/a\n0::/b\n", hybridMounts)
	f.Add("0::/../x\n", "29 23 0:26 /a\\040 /x rw - cgroup2 cgroup2 rw\n")
	f.Fuzz(func(t *testing.T, cgroup, mounts string) {
		version, member := membership([]byte(cgroup))
		all, err := mountinfo.Parse([]byte(mounts))
		if err != nil {
			return
		}
		for _, m := range hierarchy(all, version) {
			dir, err := folder([]mountinfo.Mount{m}, member)
			if err == nil && filepath.IsAbs(m.Point) && !strings.HasPrefix(dir, filepath.Clean(m.Point)) && !strings.Contains(member, "..") {
				t.Errorf("%q in %+v is %q", member, m, dir)
			}
		}
	})
}
