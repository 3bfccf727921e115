package payload_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/cause"
)

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
	assert.NilError(t, err)
	return strings.Join(lines, "\n") + "\n"
}

func TestAnArchiveGivesADriverRootAndSources(t *testing.T) {
	driver := payloadtest.Driver{Version: version}
	digests := map[string]bool{}
	for _, compression := range []string{"xz", "zstd", "gzip", "none"} {
		s := newStore(t)
		p, err := s.Import(t.Context(), driver.Archive(t, compression))
		assert.NilError(t, err, "%s", compression)
		if err := p.Verify(t.Context()); err != nil {
			t.Error(compression, err)
		}
		digests[p.Digest] = true
		golden.Assert(t, tree(t, p.Dir), "root.golden")
		if p.Root != p.Dir+"/root" || p.Version != version || p.Machine != "x86_64" || len(p.Sources) != 2 {
			t.Errorf("%s: %+v", compression, p)
		}
		found, err := s.List()
		if err != nil || len(found) != 1 || found[0].Digest != p.Digest || found[0].Root != p.Root || found[0].Sources[payload.Open] != p.Sources[payload.Open] {
			t.Errorf("%s: %+v, %v", compression, found, err)
		}
	}
	p, err := newStore(t).Import(t.Context(), driver.Folder(t))
	assert.NilError(t, err)
	if digests[p.Digest] = true; len(digests) != 1 {
		t.Errorf("the same driver has several digests: %v", digests)
	}
}

func TestAnImportSaysHowFarItIs(t *testing.T) {
	driver := payloadtest.Driver{Version: version}
	archive, folder := driver.Archive(t, "xz"), driver.Folder(t)
	info, err := os.Stat(archive)
	assert.NilError(t, err)
	for path, total := range map[string]int{archive: int(info.Size()), folder: 0} {
		s := newStore(t)
		var seen []progress.Progress
		s.Progress = func(p progress.Progress) { seen = append(seen, p) }
		if _, err := s.Import(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		last := progress.Progress{}
		for i, p := range seen {
			if i == len(seen)-1 {
				if p.Step != payload.StepSync {
					t.Errorf("%s: %s at the end", path, p)
				}
				break
			}
			if p.Step != payload.StepCopy || p.Done < last.Done || p.Done > p.Total {
				t.Errorf("%s: %s after %s, %+v", path, p, last, p)
			}
			last = p
		}
		if len(seen) < 3 || seen[0].Done != 0 || last.Done == 0 || total > 0 && (last.Done != total || last.Total != total) {
			t.Errorf("%s: %+v, want %d bytes", path, last, total)
		}
	}
	p := progress.Progress{Step: payload.StepCopy, Done: 412 << 20, Total: 1398 << 20, Bytes: true, Elapsed: 12345678901}
	if got := p.String(); got != "copy 412/1398 MiB, 12s" {
		t.Error(got)
	}
}

func TestASecondImportWritesNothing(t *testing.T) {
	s := newStore(t)
	archive := payloadtest.Driver{Version: version}.Archive(t, "gzip")
	p, err := s.Import(t.Context(), archive)
	assert.NilError(t, err)
	before, err := os.Stat(s.Dir + "/drivers")
	assert.NilError(t, err)
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
	assert.NilError(t, err)
	root, err := os.Stat(p.Root)
	assert.NilError(t, err)
	image := t.TempDir()
	assert.NilError(t, os.CopyFS(filepath.Join(image, "drivers", filepath.Base(driver.Folder(t))), os.DirFS(driver.Folder(t))))
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
	assert.NilError(t, err)
	payloadtest.Write(t, image+"/drivers/NVIDIA-Linux-x86_64-"+version+".run", string(run), 0o755)
	payloadtest.Write(t, image+"/usr/bin/nv-fabricmanager", "#!/bin/sh\n", 0o755)
	payloadtest.Write(t, image+"/usr/share/nvidia/nvswitch/fabricmanager.cfg", "A=1\n", 0o644)
	payloadtest.Write(t, image+"/opt/nvidia/nvlsm/sbin/nvlsm", "#!/bin/sh\n", 0o755)
	payloadtest.Write(t, image+"/usr/share/nvidia/nvlsm/nvlsm.conf", "a b\n", 0o644)
	payloadtest.Write(t, image+"/usr/lib/x86_64-linux-gnu/libibumad.so.3", "library", 0o644)
	payloadtest.Write(t, image+"/usr/bin/bash", "not of the driver\n", 0o755)
	p, err := newStore(t).Import(t.Context(), image)
	assert.NilError(t, err)
	for name, want := range map[string]bool{
		"usr/bin/nv-fabricmanager": true, "usr/share/nvidia/nvswitch/fabricmanager.cfg": true, "usr/bin/bash": false, "usr/bin/nvidia-smi": true,
		"opt/nvidia/nvlsm/sbin/nvlsm": true, "usr/share/nvidia/nvlsm/nvlsm.conf": true, "usr/lib/x86_64-linux-gnu/libibumad.so.3": true,
	} {
		if _, err := os.Stat(filepath.Join(p.Root, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADriverRootIsTakenAsItIs(t *testing.T) {
	from, err := newStore(t).Import(t.Context(), payloadtest.Driver{Version: version}.Folder(t))
	assert.NilError(t, err)
	const kernel = "6.1.0-1-amd64"
	modules := payloadtest.Modules(version, kernel, moduletest.Open)
	other := payloadtest.Modules("575.1", kernel, moduletest.Proprietary)
	folder := from.Root + "/usr/lib/modules/" + kernel
	payloadtest.Write(t, from.Root+"/usr/src/nvidia-"+version+"/nvidia/nv.c", "MODULE_LICENSE(\"NVIDIA\");\n", 0o644)
	payloadtest.Write(t, from.Root+"/usr/src/nvidia-fs-2.25/nvfs-core.c", "MODULE_LICENSE(\"GPL\");\n", 0o644)
	payloadtest.Write(t, folder+"/updates/dkms/nvidia.ko", modules["nvidia.ko"], 0o644)
	payloadtest.Write(t, folder+"/updates/dkms/nvidia-uvm.ko.xz", string(payloadtest.Compress(t, "xz", []byte(modules["nvidia-uvm.ko"]))), 0o644)
	payloadtest.Write(t, folder+"/updates/nvidia-fs.ko", modules["nvidia-drm.ko"], 0o644)
	payloadtest.Write(t, folder+"/kernel/nvidia-575srv/nvidia.ko", other["nvidia.ko"], 0o644)
	payloadtest.Write(t, folder+"/kernel/ext4.ko", "not of the driver", 0o644)
	payloadtest.Write(t, from.Root+"/dev/null", "", 0o644)
	p, err := newStore(t).Import(t.Context(), from.Root)
	assert.NilError(t, err)
	if p.Version != version || p.Sources[payload.Proprietary] == "" || p.Sources[payload.Open] != "" {
		t.Errorf("%+v", p)
	}
	got := tree(t, filepath.Join(p.Dir, "precompiled"))
	const want = "drwxr-xr-x 6.1.0-1-amd64\ndrwxr-xr-x 6.1.0-1-amd64/open\n-rw-r--r-- 6.1.0-1-amd64/open/nvidia-fs.ko\n" +
		"-rw-r--r-- 6.1.0-1-amd64/open/nvidia-uvm.ko.xz\n-rw-r--r-- 6.1.0-1-amd64/open/nvidia.ko\n"
	if got != want || p.Precompiled[kernel][payload.Open] != filepath.Join(p.Dir, "precompiled", kernel, "open") {
		t.Errorf("%s%v", got, p.Precompiled)
	}
	for _, name := range []string{"dev/null", "usr/src/nvidia-" + version, "usr/lib/modules"} {
		if _, err := os.Lstat(filepath.Join(p.Root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(p.Root + "/usr/src/nvidia-fs-2.25/nvfs-core.c"); err != nil {
		t.Error(err)
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
		assert.NilError(t, err)
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
	} {
		p, err := s.Import(t.Context(), folder)
		if err != nil {
			t.Fatal(name, err)
		}
		assert.NilError(t, damage(p.Root+"/usr/lib/firmware/nvidia/"+version+"/gsp_ga10x.bin"))
		if err := p.Complete(); code(err) != cause.PayloadCorrupt || !strings.Contains(err.Error(), "gsp_ga10x.bin") {
			t.Errorf("%s: %v", name, err)
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
