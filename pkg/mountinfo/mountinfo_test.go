package mountinfo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/mountinfo"
)

func TestParse(t *testing.T) {
	lower := strings.Repeat(":/var/lib/containerd/snapshots/1/fs", 10_000)
	for name, tc := range map[string]struct {
		text string
		want []mountinfo.Mount
		err  string
	}{
		"a mount that keeps to itself": {
			text: "36 31 0:33 /a /mnt rw,relatime - cgroup cgroup rw,devices\n",
			want: []mountinfo.Mount{{ID: 36, Root: "/a", Point: "/mnt", Type: "cgroup", Super: "rw,devices"}},
		},
		"a shared mount that also is a slave": {
			text: "36 31 98:0 / /mnt rw shared:3 master:1 - ext4 /dev/root rw\n",
			want: []mountinfo.Mount{{ID: 36, Root: "/", Point: "/mnt", Shared: true, Type: "ext4", Super: "rw"}},
		},
		"a slave": {
			text: "36 31 98:0 / /mnt rw master:1 - ext4 /dev/root rw\n",
			want: []mountinfo.Mount{{ID: 36, Root: "/", Point: "/mnt", Type: "ext4", Super: "rw"}},
		},
		"a source that says shared": {
			text: "36 31 98:0 / /mnt rw - ext4 shared:3 rw\n",
			want: []mountinfo.Mount{{ID: 36, Root: "/", Point: "/mnt", Type: "ext4", Super: "rw"}},
		},
		"two on each other, the last line without its end": {
			text: "1 1 0:1 / /mnt rw - tmpfs a rw\n2 1 0:2 / /mnt rw - tmpfs b ro",
			want: []mountinfo.Mount{{ID: 1, Root: "/", Point: "/mnt", Type: "tmpfs", Super: "rw"}, {ID: 2, Root: "/", Point: "/mnt", Type: "tmpfs", Super: "ro"}},
		},
		"escaped characters": {
			text: `1 1 0:1 /\043\134x /a\040b\011c\012d\134040 rw - tmpfs a\040b rw` + "\n",
			want: []mountinfo.Mount{{ID: 1, Root: `/#\x`, Point: "/a b\tc\nd\\040", Type: "tmpfs", Super: "rw"}},
		},
		"backslashes that escape nothing": {
			text: `1 1 0:1 / /a\9\777\04 rw - tmpfs a rw` + "\n",
			want: []mountinfo.Mount{{ID: 1, Root: "/", Point: `/a\9\777\04`, Type: "tmpfs", Super: "rw"}},
		},
		"no source":                  {text: "1 1 0:1 / /mnt rw - tmpfs  rw\n", want: []mountinfo.Mount{{ID: 1, Root: "/", Point: "/mnt", Type: "tmpfs", Super: "rw"}}},
		"options with spaces":        {text: "1 1 0:1 / /mnt rw - 9p C: aname=drvfs;path=C:\\Program Files\n", want: []mountinfo.Mount{{ID: 1, Root: "/", Point: "/mnt", Type: "9p", Super: `aname=drvfs;path=C:\Program Files`}}},
		"a line of 350 KB":           {text: "1 1 0:1 / / rw - overlay overlay rw,lowerdir=" + lower + "\n", want: []mountinfo.Mount{{ID: 1, Root: "/", Point: "/", Type: "overlay", Super: "rw,lowerdir=" + lower}}},
		"no mounts":                  {},
		"a line that ends early":     {text: "1 1 0:1 / / rw - a b c\n2 1 0:2 / /mnt rw\n", err: "line 2 is not one of proc_pid_mountinfo(5): 2 1 0:2 / /mnt rw?"},
		"a line that begins late":    {text: "/ /mnt rw - tmpfs a rw\n", err: "line 1 is not"},
		"a filesystem without words": {text: "1 1 0:1 / / rw - tmpfs\n", err: "line 1 is not"},
		"a mount without a number":   {text: "x 1 0:1 / / rw - tmpfs a rw\n", err: "line 1 is not"},
		"an empty line":              {text: "\n", err: "line 1 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mountinfo.Parse([]byte(tc.text))
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What the kernel says of this process agrees with how it finds its files.
func TestMountOfFile(t *testing.T) {
	for path, kind := range map[string]string{"/proc": "proc", "/proc/self/status": "proc"} {
		f, err := os.OpenFile(path, unix.O_PATH, 0)
		assert.NilError(t, err)
		defer f.Close()
		id, err := mountinfo.Of(f)
		assert.NilError(t, err)
		m, err := mountinfo.ByID(id)
		assert.NilError(t, err)
		assert.Equal(t, m.Type, kind, path)
		assert.Equal(t, m.Point, "/proc", path)
	}
	_, err := mountinfo.ByID(0)
	assert.ErrorContains(t, err, "find mount 0: /proc/thread-self/mountinfo does not list it")
}

func TestMountOfClosedFile(t *testing.T) {
	f, err := os.Open("/proc")
	assert.NilError(t, err)
	assert.NilError(t, f.Close())
	_, err = mountinfo.Of(f)
	assert.ErrorContains(t, err, "find mount of /proc")
}

func TestReadNamesTheFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "mountinfo")
	_, err := mountinfo.Read(missing)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, missing)

	huge := filepath.Join(t.TempDir(), "huge")
	assert.NilError(t, os.WriteFile(huge, nil, 0o644))
	assert.NilError(t, os.Truncate(huge, 1<<30))
	_, err = mountinfo.Read(huge)
	assert.ErrorContains(t, err, huge+" has more than 67108864 bytes")
}

func FuzzParse(f *testing.F) {
	f.Add("36 31 0:33 / /a\\040b rw shared:3 - cgroup cgroup rw,devices\n")
	f.Add("1 1 0:1 / /mnt rw - tmpfs  rw\n")
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := mountinfo.Parse([]byte(text))
		if lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1; err == nil && text != "" && len(mounts) != lines {
			t.Errorf("%d mounts of %d lines", len(mounts), lines)
		}
	})
}
