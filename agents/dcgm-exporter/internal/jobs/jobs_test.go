package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/jobs"
	"outrigger.dev/pkg/gpu"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestRead(t *testing.T) {
	dir := folder(t, map[string]string{
		"0":    "1234\n 77.batch \r\n\n1234\n",
		"00":   "9\n1234\n",
		"1":    "",
		"2.7":  "slurm/42",
		"2":    "whole\n",
		"10.0": "x\n",
		"3.":   "no\n", ".3": "no\n", "a": "no\n", "0.1.2": "no\n", "-1": "no\n", "+1": "no\n", "1.+2": "no\n", "0.7.tmp": "no\n",
		"99999999999999999999": "no\n", "4294967295": "no\n", "0.4294967295": "no\n", " 5": "no\n",
	})
	got, err := jobs.Read(dir)
	assert.NilError(t, err)
	want := jobs.Jobs{
		{GPU: 0, Instance: gpu.NoInstance}: {"1234", "77.batch", "9"},
		{GPU: 2, Instance: 7}:              {"slurm/42"},
		{GPU: 2, Instance: gpu.NoInstance}: {"whole"},
		{GPU: 10, Instance: 0}:             {"x"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("jobs (-want +got):\n%s", d)
	}
}

func TestReadRejectsWhatIsNoListOfJobs(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	assert.NilError(t, os.WriteFile(secret, []byte("root:hash\n"), 0o600))
	for name, c := range map[string]struct {
		content string
		make    func(path string) error
		err     string
	}{
		"a link to another file":      {make: func(p string) error { return os.Symlink(secret, p) }, err: "is a link"},
		"a named pipe":                {make: func(p string) error { return unix.Mkfifo(p, 0o600) }, err: "not a regular file"},
		"a folder":                    {make: func(p string) error { return os.Mkdir(p, 0o700) }, err: "not a regular file"},
		"a file that is too large":    {content: strings.Repeat("1\n", 40000), err: "larger than 64 KiB"},
		"too many jobs":               {content: numbers(257), err: "more than 256 jobs"},
		"an id that is too long":      {content: strings.Repeat("x", 257), err: "at most 256 printable"},
		"an id that is not printable": {content: "a\x1b[1mb\n", err: "at most 256 printable"},
		"an id that is not UTF-8":     {content: "\xff\n", err: "at most 256 printable"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"1": "good\n"})
			path := filepath.Join(dir, "0")
			if c.make == nil {
				c.make = func(p string) error { return os.WriteFile(p, []byte(c.content), 0o600) }
			}
			assert.NilError(t, c.make(path))
			got, err := jobs.Read(dir)
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if d := cmp.Diff(jobs.Jobs{{GPU: 1, Instance: gpu.NoInstance}: {"good"}}, got); d != "" {
				t.Errorf("jobs (-want +got):\n%s", d)
			}
		})
	}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestReadNamesTheFolder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	if _, err := jobs.Read(missing); err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "--hpc-job-mapping-dir") {
		t.Errorf("error %v", err)
	}
	dir := t.TempDir()
	for i := range 4097 {
		assert.NilError(t, os.Symlink("x", filepath.Join(dir, fmt.Sprint("f", i))))
	}
	if _, err := jobs.Read(dir); err == nil || !strings.Contains(err.Error(), "more than 4096 entries") {
		t.Errorf("error %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, unix.Mkfifo(pipe, 0o600))
	if _, err := jobs.Read(pipe); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("error %v", err)
	}
	if got, err := jobs.Read(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("an empty folder: %v, error %v", got, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("0", "1234\n77\n")
	f.Add("2.7", "a\x00b")
	f.Fuzz(func(t *testing.T, name, content string) {
		if strings.ContainsAny(name, "/\x00") || name == "" || name == "." || name == ".." || len(name) > 255 {
			t.Skip()
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := jobs.Read(dir)
		if len(got) > 1 || len(got) > 0 && err != nil {
			t.Errorf("%v, error %v", got, err)
		}
		for d, ids := range got {
			if d.GPU < 0 || len(ids) == 0 {
				t.Errorf("%v: %q", d, ids)
			}
			for _, id := range ids {
				if id == "" || strings.ContainsAny(id, "\n\r\x00") {
					t.Errorf("id %q", id)
				}
			}
		}
	})
}
