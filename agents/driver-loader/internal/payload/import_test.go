package payload_test

import (
	"context"
	"debug/elf"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

var update = flag.Bool("update", false, "write the golden files")

const version = "580.95.05"

func newStore(t *testing.T) payload.Store {
	return payload.Store{Dir: t.TempDir(), Machine: "x86_64"}
}

// tree lists a folder: modes, names, and the targets of links.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		line := info.Mode().String() + " " + strings.TrimPrefix(path, dir+"/")
		if e.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			line += " -> " + target
			if err != nil {
				return err
			}
		}
		lines = append(lines, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestAnArchiveGivesADriverRootAndSources(t *testing.T) {
	driver := payloadtest.Driver{Version: version}
	digests := map[string]bool{}
	for _, compression := range []string{"xz", "zstd", "gzip", "none"} {
		s := newStore(t)
		p, err := s.Import(t.Context(), driver.Archive(t, compression))
		if err != nil {
			t.Fatalf("%s: %v", compression, err)
		}
		if err := p.Verify(t.Context()); err != nil {
			t.Error(compression, err)
		}
		digests[p.Digest] = true
		golden(t, "root.golden", tree(t, p.Dir))
		if p.Root != p.Dir+"/root" || p.Version != version || p.Machine != "x86_64" || len(p.Sources) != 2 {
			t.Errorf("%s: %+v", compression, p)
		}
		found, err := s.Find(version)
		if err != nil || found.Digest != p.Digest || found.Root != p.Root || found.Sources[payload.Open] != p.Sources[payload.Open] {
			t.Errorf("%s: %+v, %v", compression, found, err)
		}
	}
	p, err := newStore(t).Import(t.Context(), driver.Folder(t))
	if err != nil {
		t.Fatal(err)
	}
	if digests[p.Digest] = true; len(digests) != 1 {
		t.Errorf("the same driver has several digests: %v", digests)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		payloadtest.Write(t, path, got, 0o644)
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v), run with -update:\n%s", path, err, got)
	}
}

func TestASecondImportWritesNothing(t *testing.T) {
	s := newStore(t)
	archive := payloadtest.Driver{Version: version}.Archive(t, "gzip")
	p, err := s.Import(t.Context(), archive)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(s.Dir + "/drivers")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Import(t.Context(), archive)
	after, statErr := os.Stat(s.Dir + "/drivers")
	if err != nil || statErr != nil || again.Dir != p.Dir || again.Imported != p.Imported || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%+v, %v, %v", again, err, statErr)
	}
}

func TestTheSameDriverFromElsewhereIsTheSamePayload(t *testing.T) {
	s := newStore(t)
	driver := payloadtest.Driver{Version: version}
	p, err := s.Import(t.Context(), driver.Archive(t, "gzip"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Stat(p.Root)
	if err != nil {
		t.Fatal(err)
	}
	image := t.TempDir()
	if err := os.CopyFS(filepath.Join(image, "drivers", filepath.Base(driver.Folder(t))), os.DirFS(driver.Folder(t))); err != nil {
		t.Fatal(err)
	}
	again, err := s.Import(t.Context(), image)
	same, statErr := os.Stat(p.Root)
	if err != nil || statErr != nil || again.Digest != p.Digest || !os.SameFile(root, same) {
		t.Errorf("%+v, %v, %v", again, err, statErr)
	}
	if entries, err := os.ReadDir(s.Dir + "/drivers"); err != nil || len(entries) != 2 { // the payload and the lock
		t.Errorf("%v, %v", entries, err)
	}
}

func TestADriverImageBringsTheDaemonsOfTheFabric(t *testing.T) {
	image := t.TempDir()
	run, err := os.ReadFile(payloadtest.Driver{Version: version}.Archive(t, "gzip"))
	if err != nil {
		t.Fatal(err)
	}
	payloadtest.Write(t, image+"/drivers/NVIDIA-Linux-x86_64-"+version+".run", string(run), 0o755)
	payloadtest.Write(t, image+"/usr/bin/nv-fabricmanager", "#!/bin/sh\n", 0o755)
	payloadtest.Write(t, image+"/usr/share/nvidia/nvswitch/fabricmanager.cfg", "A=1\n", 0o644)
	payloadtest.Write(t, image+"/usr/bin/bash", "not of the driver\n", 0o755)
	p, err := newStore(t).Import(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"usr/bin/nv-fabricmanager": true, "usr/share/nvidia/nvswitch/fabricmanager.cfg": true, "usr/bin/bash": false, "usr/bin/nvidia-smi": true} {
		if _, err := os.Stat(filepath.Join(p.Root, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADriverRootIsTakenAsItIs(t *testing.T) {
	from, err := newStore(t).Import(t.Context(), payloadtest.Driver{Version: version}.Folder(t))
	if err != nil {
		t.Fatal(err)
	}
	payloadtest.Write(t, from.Root+"/usr/src/nvidia-"+version+"/nvidia/nv.c", "MODULE_LICENSE(\"NVIDIA\");\n", 0o644)
	payloadtest.Write(t, from.Root+"/usr/lib/modules/6.1.0-1-amd64/updates/dkms/nvidia-uvm.ko.xz", "module", 0o644)
	payloadtest.Write(t, from.Root+"/usr/lib/modules/6.1.0-1-amd64/kernel/ext4.ko", "not of the driver", 0o644)
	payloadtest.Write(t, from.Root+"/dev/null", "", 0o644)
	p, err := newStore(t).Import(t.Context(), from.Root)
	if err != nil {
		t.Fatal(err)
	}
	if p.Version != version || p.Sources[payload.Proprietary] == "" || p.Sources[payload.Open] != "" {
		t.Errorf("%+v", p)
	}
	modules := tree(t, p.Precompiled["6.1.0-1-amd64"])
	if modules != "-rw-r--r-- nvidia-uvm.ko.xz\n" {
		t.Error(modules)
	}
	for _, name := range []string{"dev/null", "usr/src/nvidia-" + version, "usr/lib/modules"} {
		if _, err := os.Lstat(filepath.Join(p.Root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if target, err := os.Readlink(p.Root + "/usr/lib/x86_64-linux-gnu/libcuda.so"); err != nil || target != "libcuda.so.1" {
		t.Error(target, err)
	}
}

func TestASourceTreeIsAPayloadWithoutADriverRoot(t *testing.T) {
	whole := t.TempDir()
	payloadtest.Write(t, whole+"/version.mk", "# comment\nNVIDIA_VERSION = "+version+"\n", 0o644)
	payloadtest.Write(t, whole+"/kernel-open/Makefile", "modules:\n", 0o644)
	payloadtest.Write(t, whole+"/src/nvidia/Makefile", "all:\n", 0o644)
	payloadtest.Write(t, whole+"/.git/config", "secret\n", 0o644)
	part := t.TempDir()
	payloadtest.Write(t, part+"/Makefile", "modules:\n", 0o644)
	payloadtest.Write(t, part+"/Kbuild", "obj-m := nvidia.o\n", 0o644)
	payloadtest.Write(t, part+"/dkms.conf", "PACKAGE_NAME=\"nvidia\"\nPACKAGE_VERSION=\""+version+"\"\n", 0o644)
	for dir, want := range map[string]string{
		whole: "kernel-open src version.mk",
		part:  "Kbuild Makefile dkms.conf",
	} {
		p, err := newStore(t).Import(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(p.Sources[payload.Open])
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want || p.Root != "" || p.Version != version {
			t.Errorf("%q, %+v, %v", got, p, err)
		}
	}
}

func TestAFileThatChangedIsNamedAndTheDriverIsImportedAgain(t *testing.T) {
	s := newStore(t)
	folder := payloadtest.Driver{Version: version}.Folder(t)
	for name, damage := range map[string]func(string) error{
		"gone":    os.Remove,
		"shorter": func(path string) error { return os.Truncate(path, 3) },
		"other content": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("x", len("firmware of "+version))), 0o644)
		},
	} {
		p, err := s.Import(t.Context(), folder)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := damage(p.Root + "/usr/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin"); err != nil {
			t.Fatal(err)
		}
		if err := p.Verify(t.Context()); code(err) != payload.Corrupt || !strings.Contains(err.Error(), "gsp_ga10x.bin") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Find(version); name != "other content" && code(err) != payload.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
		if name == "other content" { // only Verify sees it
			if err := s.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		if p, err = s.Import(t.Context(), folder); err != nil || p.Verify(t.Context()) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func code(err error) cause.Code {
	var c cause.Cause
	errors.As(err, &c)
	return c.Code
}

func TestWhatIsNoDriverForThisNodeIsNamed(t *testing.T) {
	driver := payloadtest.Driver{Version: version}
	arm := payloadtest.Driver{Version: version, Machine: elf.EM_AARCH64}
	content := payloadtest.Compress(t, "gzip", payloadtest.Tar(t, driver.Folder(t)))
	archive := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "driver.run")
		payloadtest.Write(t, path, string(data), 0o755)
		return path
	}
	good := payloadtest.Run(version, "x86_64", content)
	without := func(name string) string {
		dir := driver.Folder(t)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, test := range map[string]struct {
		from string
		want cause.Code
		says string
	}{
		"a path without anything":              {filepath.Join(t.TempDir(), "x"), payload.Missing, "is not there"},
		"an empty folder":                      {t.TempDir(), payload.Missing, "has no driver in it"},
		"an empty file":                        {archive(nil), payload.Corrupt, "is no .run archive"},
		"a file that is no script":             {archive([]byte("\x7fELF\n")), payload.Corrupt, "is no .run archive"},
		"a script that is no archive":          {archive([]byte("#!/bin/sh\nexit\n")), payload.Corrupt, "is no .run archive"},
		"an archive for another processor":     {archive(payloadtest.Run(version, "aarch64", content)), payload.WrongMachine, "Linux-aarch64; this node is Linux-x86_64"},
		"libraries for another processor":      {arm.Folder(t), payload.WrongMachine, "for another processor"},
		"an archive cut off in its script":     {archive(good[:120]), payload.Truncated, "ends"},
		"an archive cut off in its content":    {archive(good[:len(good)-200]), payload.Truncated, "ends too early"},
		"an archive with a changed byte":       {archive(append(slices.Clone(good[:len(good)-1]), good[len(good)-1]^1)), payload.Corrupt, ""},
		"an archive with bytes at the end":     {archive(append(slices.Clone(good), 0)), payload.Truncated, ""},
		"an archive of something else":         {archive(payloadtest.Run(version, "x86_64", payloadtest.Compress(t, "xz", payloadtest.Tar(t, t.TempDir())))), payload.Corrupt, "no file .manifest"},
		"content that is not compressed right": {archive(payloadtest.Run(version, "x86_64", []byte("\xfd7zXZ\x00"+strings.Repeat("no xz ", 500)))), payload.Corrupt, "cannot be decompressed"},
		"a folder without a library":           {without("libcuda.so." + version), payload.Truncated, "lacks the file"},
		"a folder without firmware":            {without("firmware/gsp_ga10x.bin"), payload.Truncated, "gsp_ga10x.bin"},
	} {
		s := newStore(t)
		_, err := s.Import(context.Background(), test.from)
		if code(err) != test.want || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		empty(t, s)
	}
}

// empty checks that the store is as if nothing had been imported.
func empty(t *testing.T, s payload.Store) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir + "/drivers")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			t.Errorf("left %s", e.Name())
		}
	}
}
