package payload_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
)

// tarOf returns an archive with entries, each with the content "x" if it is a file.
func tarOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, h := range entries {
		h.Mode = 0o644
		if h.Typeflag == tar.TypeReg {
			h.Size = 1
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

func TestAnArchiveDoesNotLeaveItsFolder(t *testing.T) {
	outside := t.TempDir()
	payloadtest.Write(t, outside+"/victim", "untouched", 0o644)
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	link := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	for name, entries := range map[string][]tar.Header{
		"a path upwards":                     {file("../../../../../../../.." + outside + "/victim")},
		"a file behind a link to outside":    {link("a", outside), file("a/victim")},
		"a file behind two links":            {link("a", "b"), link("b", outside), file("a/victim")},
		"a file behind a link upwards":       {link("a", "../../.."), file("a/victim")},
		"a folder behind a link":             {link("a", outside), {Typeflag: tar.TypeDir, Name: "a/folder"}},
		"a hard link to outside":             {{Typeflag: tar.TypeLink, Name: "a", Linkname: "../../../../../../../.." + outside + "/victim"}},
		"a hard link behind a link":          {link("a", outside), {Typeflag: tar.TypeLink, Name: "b", Linkname: "a/victim"}},
		"a device":                           {{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}},
		"a named pipe":                       {{Typeflag: tar.TypeFifo, Name: "pipe"}},
		"a name with a character of control": {file("a\nb")},
		"a name of 300 characters":           {file(strings.Repeat("n", 300))},
		"a folder of 300 characters":         {file("a/" + strings.Repeat("n", 300) + "/b")},
		"a path of 1200 characters":          {file(strings.Repeat("folder/", 170) + "file")},
		"a manifest that is a link":          {link(".manifest", outside+"/victim")},
		"a manifest that is a folder":        {{Typeflag: tar.TypeDir, Name: ".manifest"}},
	} {
		s := newStore(t)
		path := filepath.Join(t.TempDir(), "driver.run")
		payloadtest.Write(t, path, string(payloadtest.Run(version, "x86_64", tarOf(t, entries...))), 0o755)
		_, err := s.Import(t.Context(), path)
		var c cause.Cause
		if errors.As(err, &c); c.Code != cause.PayloadRejected || c.Fix == "" || len(c.Text) > 400 {
			t.Errorf("%s: %v", name, err)
		}
		empty(t, s)
		if data, err := os.ReadFile(outside + "/victim"); err != nil || string(data) != "untouched" {
			t.Errorf("%s: the file outside has %q, %v", name, data, err)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
			t.Errorf("%s: the folder outside has %v, %v", name, entries, err)
		}
	}
}

func TestAFolderOfSourcesDoesNotLeaveTheDriver(t *testing.T) {
	outside := t.TempDir()
	payloadtest.Write(t, outside+"/victim", "secret", 0o644)
	for name, target := range map[string]string{"a link to outside": outside, "a link upwards": "../../../../../../.." + outside} {
		for _, folder := range []string{"kernel", "kernel-open"} {
			dir := payloadtest.Driver{Version: version}.Folder(t)
			if err := errors.Join(os.RemoveAll(dir+"/"+folder), os.Symlink(target, dir+"/"+folder)); err != nil {
				t.Fatal(err)
			}
			archive := filepath.Join(t.TempDir(), "driver.run")
			payloadtest.Write(t, archive, string(payloadtest.Run(version, "x86_64", payloadtest.Tar(t, dir))), 0o755)
			for _, from := range []string{dir, archive} {
				s := newStore(t)
				if _, err := s.Import(t.Context(), from); code(err) != cause.PayloadRejected || !strings.Contains(err.Error(), "leads out of its folder") {
					t.Errorf("%s at %s of %s: %v", name, folder, from, err)
				}
				empty(t, s)
			}
		}
	}
}

func TestALinkIsReplacedAndNotWrittenThrough(t *testing.T) {
	outside := t.TempDir() + "/victim"
	payloadtest.Write(t, outside, "untouched", 0o644)
	path := filepath.Join(t.TempDir(), "driver.run")
	payloadtest.Write(t, path, string(payloadtest.Run(version, "x86_64", tarOf(t,
		tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: outside}, tar.Header{Typeflag: tar.TypeReg, Name: "a"}))), 0o755)
	if _, err := newStore(t).Import(t.Context(), path); code(err) != cause.PayloadCorrupt { // it has no .manifest
		t.Error(err)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "untouched" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestAManifestDoesNotLeaveTheDriverRoot(t *testing.T) {
	for name, line := range map[string]string{
		"a folder upwards":         "nvidia-smi 0755 EXPLICIT_PATH ../../../../etc/",
		"a file from outside":      "../../../../../../etc/passwd 0644 UTILITY_BINARY",
		"a link to outside":        "libcuda.so.2 0000 CUDA_SYMLINK NATIVE / ../../../../etc/shadow",
		"a link to an absolute":    "libcuda.so.2 0000 CUDA_SYMLINK NATIVE / /etc/shadow",
		"a path that leaves later": "nvidia-smi 0755 OPENGL_DATA /usr/../../x/",
	} {
		dir := payloadtest.Driver{Version: version}.Folder(t)
		manifest, err := os.ReadFile(dir + "/.manifest")
		if err != nil {
			t.Fatal(err)
		}
		payloadtest.Write(t, dir+"/.manifest", string(manifest)+line+"\n", 0o644)
		s := newStore(t)
		if _, err := s.Import(t.Context(), dir); code(err) != cause.PayloadRejected {
			t.Errorf("%s: %v", name, err)
		}
		empty(t, s)
	}
}

func TestASourceWithALinkToOutsideDoesNotBringThatFile(t *testing.T) {
	dir := payloadtest.Driver{Version: version}.Folder(t)
	if err := errors.Join(os.Remove(dir+"/nvidia-smi"), os.Symlink("/etc/passwd", dir+"/nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(t).Import(t.Context(), dir); code(err) != cause.PayloadTruncated {
		t.Error(err)
	}
}

func TestAnArchiveWithoutBoundsIsRejected(t *testing.T) {
	zeros := make([]byte, 8<<20)
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(zeros))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(zeros); err != nil {
		t.Fatal(err)
	}
	many := make([]tar.Header, 100_001)
	for i := range many {
		many[i] = tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprint(i % 10)}
	}
	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"too much content": {payloadtest.Compress(t, "gzip", content.Bytes()), "has more than 4 MiB"},
		"too many files":   {payloadtest.Compress(t, "gzip", tarOf(t, many...)), "has more than 100000 files"},
		// The header of an xz block: LZMA2 with the dictionary 4 GiB - 1.
		"a decompressor that needs 4 GiB": {[]byte("\xfd7zXZ\x00\x00\x00\xff\x12\xd9\x41\x02\x00\x21\x01\x28" + strings.Repeat("\x00", 64)), "a dictionary of more than 256 MiB"},
	} {
		s := newStore(t)
		s.MaxBytes = 4 << 20
		path := filepath.Join(t.TempDir(), "driver.run")
		payloadtest.Write(t, path, string(payloadtest.Run(version, "x86_64", test.data)), 0o755)
		if _, err := s.Import(t.Context(), path); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		empty(t, s)
	}
}

func TestAFullDiskIsNamedAndLeftAsItWas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for a tmpfs")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("this machine has no tmpfs to mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	driver := payloadtest.Driver{Version: version}
	folder := driver.Folder(t)
	payloadtest.Write(t, folder+"/firmware/gsp_ga10x.bin", strings.Repeat("x", 200<<10), 0o644)
	for _, from := range []string{folder, driver.Archive(t, "none")} {
		s := payload.Store{Dir: dir, Machine: "x86_64"}
		if from != folder {
			// Fill it: the archive needs 40 KiB.
			payloadtest.Write(t, dir+"/other", strings.Repeat("x", 40<<10), 0o644)
		}
		if _, err := s.Import(t.Context(), from); code(err) != cause.NoSpace || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%s: %v", from, err)
		}
		empty(t, s)
	}
}

func TestAnImportThatIsInterruptedLeavesNothing(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Import(ctx, payloadtest.Driver{Version: version}.Archive(t, "gzip")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	empty(t, s)
	// What a process that was killed left behind goes with the next import.
	payloadtest.Write(t, s.Dir+"/drivers/.new-1/root/x", "x", 0o644)
	if _, err := s.Import(t.Context(), payloadtest.Driver{Version: version}.Folder(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir + "/drivers/.new-1"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestOneProcessImportsAtATime(t *testing.T) {
	s := newStore(t)
	stage, err := staging.New(s.Dir + "/drivers")
	if err != nil {
		t.Fatal(err)
	}
	folder := payloadtest.Driver{Version: version}.Folder(t)
	if _, err := s.Import(t.Context(), folder); code(err) != cause.StoreBusy {
		t.Error(err)
	}
	if err := stage.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), folder); err != nil {
		t.Error(err)
	}
}
