package hostfs_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/hostfs"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 20 * time.Second

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
		})
	}
}

func TestWatcherReportsEachSocketOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plugins", "kubelet.sock")
	w, err := hostfs.NewWatcher(path)
	must(t, err)
	defer w.Close()
	if got := next(t, w); len(got) != 0 {
		t.Fatalf("first report: want none, got %v", got)
	}
	must(t, os.Mkdir(filepath.Dir(path), 0o755))
	created := 0
	for round := range 20 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		must(t, err)
		for created == round {
			if next(t, w)[path].Has(hostfs.Created) {
				created++
			}
		}
		must(t, l.Close())
	}
	// A last entry beside it proves that nothing more was on its way.
	for op := hostfs.Op(0); !op.Has(hostfs.Removed); {
		op = next(t, w)[path]
		if op.Has(hostfs.Created) {
			created++
		}
	}
	if created != 20 {
		t.Errorf("want 20 reports of a created socket, got %d", created)
	}
}

// TestWatcherLosesNothing creates and removes a tree as fast as it can, and asks
// that the last state is always reported.
func TestWatcherLosesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "file")
	w, err := hostfs.NewWatcher(path)
	must(t, err)
	defer w.Close()
	next(t, w)
	for round := range 200 {
		exists := round%2 == 0
		if exists {
			mkdir("a/b")(t, dir)
			put("a/b/file")(t, dir)
		} else {
			remove("a")(t, dir)
		}
		want := hostfs.Removed
		if exists {
			want = hostfs.Created
		}
		for !next(t, w)[path].Has(want) {
		}
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got [][]hostfs.Change
	err := hostfs.Watch(ctx, func(c []hostfs.Change) error {
		got = append(got, c)
		if len(got) == 1 {
			link("/dev/null", "file")(t, dir)
			return nil
		}
		cancel()
		return nil
	}, path)
	must(t, err)
	want := [][]hostfs.Change{nil, {{Path: path, Op: hostfs.Created}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	stop := errors.New("stop")
	if err := hostfs.Watch(t.Context(), func([]hostfs.Change) error { return stop }, path); !errors.Is(err, stop) {
		t.Errorf("want the callback's error, got %v", err)
	}
}

func TestWatcherRefusesKernelFileSystems(t *testing.T) {
	for _, path := range []string{"/proc/driver/nvidia/version", "/sys/bus/pci/devices"} {
		if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); err != nil {
			t.Fatalf("this test needs %s: %v", path, err)
		}
		_, err := hostfs.NewWatcher(path)
		if !errors.Is(err, hostfs.ErrUnwatchable) {
			t.Errorf("watch of %s: want ErrUnwatchable, got %v", path, err)
		}
		if err := hostfs.Watch(t.Context(), nil, path); !errors.Is(err, hostfs.ErrUnwatchable) {
			t.Errorf("Watch of %s: want ErrUnwatchable, got %v", path, err)
		}
	}
}

func TestWatcherEnds(t *testing.T) {
	w, err := hostfs.NewWatcher(t.TempDir())
	must(t, err)
	next(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	must(t, w.Close())
	if _, err := w.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: want os.ErrClosed, got %v", err)
	}
}

func TestOpString(t *testing.T) {
	op := hostfs.Created | hostfs.Removed | hostfs.Written
	if got, want := op.String(), "created+removed+written"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// next returns the next report, by path.
func next(t *testing.T, w *hostfs.Watcher) map[string]hostfs.Op {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	changes, err := w.Next(ctx)
	if err != nil {
		t.Fatalf("no report: %v", err)
	}
	m := map[string]hostfs.Op{}
	for _, c := range changes {
		m[c.Path] = c.Op
	}
	return m
}

func all(steps ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, s := range steps {
			s(t, dir)
		}
	}
}

func put(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, path), []byte(path), 0o600))
	}
}

func mkdir(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
}

func remove(path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.RemoveAll(filepath.Join(dir, path)))
	}
}

func rename(from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
	}
}

func link(to, path string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.Symlink(to, filepath.Join(dir, path)))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
