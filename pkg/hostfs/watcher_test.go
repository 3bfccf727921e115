package hostfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/hostfs"
)

func TestWatcher(t *testing.T) {
	// Each case starts with a folder that has "a/b" and the watch of
	// "a/b/file", and waits for want as the sum of what is reported.
	cases := map[string]struct {
		watch  string
		before func(t *testing.T, dir string)
		change func(t *testing.T, dir string)
		first  hostfs.Op
		want   hostfs.Op
	}{
		"a file that exists is reported at first": {
			watch: "a/b/file", before: put("a/b/file"),
			change: func(*testing.T, string) {}, first: hostfs.Created,
		},
		"a file is created": {
			watch: "a/b/file", change: put("a/b/file"), want: hostfs.Created | hostfs.Written,
		},
		"a file is written": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: put("a/b/file"), want: hostfs.Written,
		},
		"a file is removed": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: remove("a/b/file"), want: hostfs.Removed,
		},
		"a file is replaced by renaming another over it": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: func(t *testing.T, dir string) {
				must(t, hostfs.WriteFile(filepath.Join(dir, "a/b/file"), []byte("2"), 0o600))
			},
			want: hostfs.Removed | hostfs.Created,
		},
		"a file is removed and created again at once": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: all(remove("a/b/file"), link("/dev/null", "a/b/file")),
			want:   hostfs.Removed | hostfs.Created,
		},
		"a file is created and removed at once": {
			watch: "a/b/file", change: all(put("a/b/file"), remove("a/b/file")), want: hostfs.Removed,
		},
		"a file is created, and its folder removed at once": {
			watch: "a/b/file", change: all(put("a/b/file"), remove("a/b")), want: hostfs.Removed,
		},
		"a file is moved away": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: rename("a/b/file", "a/b/other"), want: hostfs.Removed,
		},
		"the folders of the file are created": {
			watch: "x/y/z/file", change: all(mkdir("x/y/z"), link("/dev/null", "x/y/z/file")),
			want: hostfs.Created,
		},
		"the folder of the file is removed and created again": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: all(remove("a/b"), mkdir("a/b"), link("/dev/null", "a/b/file")),
			want:   hostfs.Removed | hostfs.Created,
		},
		"a folder further up is moved away and created again": {
			watch: "a/b/file", before: put("a/b/file"), first: hostfs.Created,
			change: all(rename("a", "old"), mkdir("a/b"), link("/dev/null", "a/b/file")),
			want:   hostfs.Removed | hostfs.Created,
		},
		"an entry of a folder is created": {
			watch: "a/b", first: hostfs.Created, change: put("a/b/entry"), want: hostfs.Written,
		},
		"a folder that is watched is removed": {
			watch: "a/b", first: hostfs.Created, change: remove("a/b"), want: hostfs.Removed,
		},
		"an entry of a folder that was created again": {
			watch: "a/b", first: hostfs.Created,
			change: all(remove("a/b"), mkdir("a/b"), put("a/b/entry")),
			want:   hostfs.Removed | hostfs.Created,
		},
		"a path through a symbolic link": {
			watch: "link/file", before: link("a/b", "link"),
			change: put("a/b/file"), want: hostfs.Created,
		},
		"a symbolic link on the way leads elsewhere": {
			watch: "link/file", before: all(link("a/b", "link"), mkdir("c"), put("c/file")),
			change: all(link("c", "new"), rename("new", "link")), want: hostfs.Created,
		},
		"a volume that is switched by a link, as the kubelet does": {
			watch:  "v/file",
			before: all(mkdir("v/1"), put("v/1/file"), link("1", "v/data"), link("data/file", "v/file")),
			first:  hostfs.Created,
			change: all(mkdir("v/2"), put("v/2/file"), link("2", "v/tmp"), rename("v/tmp", "v/data")),
			want:   hostfs.Removed | hostfs.Created,
		},
		"a symbolic link whose end appears": {
			watch: "a/b/file", before: link("end", "a/b/file"),
			change: put("a/b/end"), want: hostfs.Created,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mkdir("a/b")(t, dir)
			if tc.before != nil {
				tc.before(t, dir)
			}
			path := filepath.Join(dir, tc.watch)
			w, err := hostfs.NewWatcher(path)
			must(t, err)
			defer w.Close()
			if got := next(t, w)[path]; got != tc.first {
				t.Fatalf("first report: want %q, got %q", tc.first, got)
			}
			tc.change(t, dir)
			var got hostfs.Op
			for !got.Has(tc.want) {
				got |= next(t, w)[path]
			}
			// The watch goes on, on what is there now.
			want := hostfs.Removed
			if _, err := os.Stat(path); err == nil {
				must(t, os.RemoveAll(path))
			} else {
				must(t, os.MkdirAll(path, 0o755))
				want = hostfs.Created
			}
			for !next(t, w)[path].Has(want) {
			}
		})
	}
}

// TestAFileThatIsReplacedTwice: file systems like ext4 give the number of a file that was
// replaced to the next new one.
func TestAFileThatIsReplacedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	replace := func() { must(t, hostfs.WriteFile(path, []byte("x"), 0o600)) }
	replace()
	w, err := hostfs.NewWatcher(path)
	must(t, err)
	defer w.Close()
	next(t, w)
	replace()
	replace()
	if op := next(t, w)[path]; op == 0 {
		t.Errorf("Next() = %v, want a change of the file", op)
	}
}
