package hostfs_test

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

func TestWatcher(t *testing.T) {
	// Each case starts with a folder that has "a/b", and the watch of a path.
	cases := map[string]struct {
		watch  string
		before func(t *testing.T, dir string)
		change func(t *testing.T, dir string)
	}{
		"a file is created": {
			watch: "a/b/file", change: put("a/b/file"),
		},
		"a file is written": {
			watch: "a/b/file", before: put("a/b/file"),
			change: put("a/b/file"),
		},
		"a file is removed": {
			watch: "a/b/file", before: put("a/b/file"),
			change: remove("a/b/file"),
		},
		"a file is replaced by renaming another over it": {
			watch: "a/b/file", before: put("a/b/file"),
			change: func(t *testing.T, dir string) {
				assert.NilError(t, hostfs.WriteFile(filepath.Join(dir, "a/b/file"), []byte("2"), 0o600))
			},
		},
		"a file is removed and created again at once": {
			watch: "a/b/file", before: put("a/b/file"),
			change: all(remove("a/b/file"), link("/dev/null", "a/b/file")),
		},
		"a file is created and removed at once": {
			watch: "a/b/file", change: all(put("a/b/file"), remove("a/b/file")),
		},
		"a file is created, and its folder removed at once": {
			watch: "a/b/file", change: all(put("a/b/file"), remove("a/b")),
		},
		"a file is moved away": {
			watch: "a/b/file", before: put("a/b/file"),
			change: rename("a/b/file", "a/b/other"),
		},
		"the folders of the file are created": {
			watch: "x/y/z/file", change: all(mkdir("x/y/z"), link("/dev/null", "x/y/z/file")),
		},
		"the folder of the file is removed and created again": {
			watch: "a/b/file", before: put("a/b/file"),
			change: all(remove("a/b"), mkdir("a/b"), link("/dev/null", "a/b/file")),
		},
		"a folder further up is moved away and created again": {
			watch: "a/b/file", before: put("a/b/file"),
			change: all(rename("a", "old"), mkdir("a/b"), link("/dev/null", "a/b/file")),
		},
		"an entry of a folder is created": {
			watch: "a/b", change: put("a/b/entry"),
		},
		"a folder that is watched is removed": {
			watch: "a/b", change: remove("a/b"),
		},
		"an entry of a folder that was created again": {
			watch:  "a/b",
			change: all(remove("a/b"), mkdir("a/b"), put("a/b/entry")),
		},
		"a path through a symbolic link": {
			watch: "link/file", before: link("a/b", "link"),
			change: put("a/b/file"),
		},
		"a symbolic link on the way leads elsewhere": {
			watch: "link/file", before: all(link("a/b", "link"), mkdir("c"), put("c/file")),
			change: all(link("c", "new"), rename("new", "link")),
		},
		"a volume that is switched by a link, as the kubelet does": {
			watch:  "v/file",
			before: all(mkdir("v/1"), put("v/1/file"), link("1", "v/data"), link("data/file", "v/file")),
			change: all(mkdir("v/2"), put("v/2/file"), link("2", "v/tmp"), rename("v/tmp", "v/data")),
		},
		"a symbolic link whose end appears": {
			watch: "a/b/file", before: link("end", "a/b/file"),
			change: put("a/b/end"),
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
			assert.NilError(t, err)
			defer w.Close()
			next(t, w) // at once
			tc.change(t, dir)
			next(t, w)
			// The watch goes on, on what is there now.
			goesOn(t, w, path)
		})
	}
}

// TestAFileThatIsReplacedTwice: file systems like ext4 give the number of a file that was
// replaced to the next new one.
func TestAFileThatIsReplacedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	replace := func() { assert.NilError(t, hostfs.WriteFile(path, []byte("x"), 0o600)) }
	replace()
	w, err := hostfs.NewWatcher(path)
	assert.NilError(t, err)
	defer w.Close()
	next(t, w)
	replace()
	replace()
	next(t, w)
}
