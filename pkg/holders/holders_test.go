package holders_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/procowner"
)

const (
	uid = "0d2e3f44-1111-2222-3333-444455556666"
	id  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// process is one that a test puts into a folder of procfs.
type process struct {
	comm, cgroup, stat, maps string
	// fds and mapped are the targets of links, by their names.
	fds, mapped map[string]string
}

func write(t *testing.T, path, content string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
}

func links(t *testing.T, dir string, targets map[string]string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	for name, target := range targets {
		assert.NilError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
}

func node(t *testing.T, processes map[string]process) procowner.Root {
	t.Helper()
	dir := t.TempDir()
	for pid, p := range processes {
		at := filepath.Join(dir, "proc", pid)
		write(t, at+"/comm", p.comm+"\n")
		write(t, at+"/cgroup", p.cgroup)
		write(t, at+"/stat", p.stat)
		write(t, at+"/maps", p.maps)
		links(t, at+"/fd", p.fds)
		links(t, at+"/map_files", p.mapped)
	}
	return procowner.Root{Proc: dir + "/proc", PodLogs: dir + "/pods"}
}

// The devices of memory have the major number 1: null 3, zero 5.
var null, memory = []holders.Devices{{Major: 1, Minors: []uint32{3}}}, []holders.Devices{{Major: 1}}

func TestFind(t *testing.T) {
	root := node(t, map[string]process{
		"12": {
			comm: "python", cgroup: "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope\n",
			fds: map[string]string{"0": "/dev/zero", "1": "/dev/null", "2": "/dev/null", "3": "socket:[12]", "4": "/etc/passwd"},
		},
		"7": {comm: "nvidia-\x1bpersist", cgroup: "0::/system.slice/nvidia-persistenced.service\n", fds: map[string]string{"3": "/dev/null"}},
		"8": {comm: "bash", cgroup: "0::/", fds: map[string]string{"3": "/etc/passwd"}},
		"9": {
			comm: "mapper", cgroup: "0::/", stat: "9 (map) D per) S 1",
			maps: "00400000-00401000 r-xp 00000000 fe:00 12   /usr/bin/mapper\n" +
				"00500000-00501000 rw-s 00000000 00:05 5    /dev/null\n7f00-7f01 rw-s 00000000 00:05 5    /dev/null\n7f02-7f03 rw-p 00000000 00:00 0\nbroken\n",
			mapped: map[string]string{"400000-401000": "/etc/passwd", "500000-501000": "/dev/null"},
		},
		"10":   {comm: "hung", cgroup: "0::/", stat: "10 (hung) D 1", maps: "00500000-00501000 rw-s 00000000 00:05 5    /dev/null\n", mapped: map[string]string{"500000-501000": "/dev/null"}},
		"self": {comm: "none", fds: map[string]string{"3": "/dev/null"}},
	})
	write(t, root.PodLogs+"/ml_train-0_"+uid+"/main/0.log", "")
	write(t, root.PodLogs+"/odd_"+uid+"/0.log", "")
	want := []holders.Holder{
		{Process: procowner.Process{PID: 7, Command: "nvidia-?persist", Owner: procowner.Owner{Unit: "nvidia-persistenced.service"}}, Devices: []string{"/dev/null"}},
		{Process: procowner.Process{PID: 9, Command: "mapper"}, Devices: []string{"/dev/null"}},
		{
			Process: procowner.Process{
				PID: 12, Command: "python", Owner: procowner.Owner{Pod: uid, Container: id}, Pod: procowner.Pod{Namespace: "ml", Name: "train-0"},
			},
			Devices: []string{"/dev/null"},
		},
	}
	got, err := holders.Find(t.Context(), root, null)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	got, err = holders.Find(t.Context(), root, memory)
	if err != nil || len(got) != 3 || !slices.Equal(got[2].Devices, []string{"/dev/null", "/dev/zero"}) {
		t.Errorf("all minors: %v\n%+v", err, got)
	}
	if got, err := holders.Find(t.Context(), root, nil); err != nil || got != nil {
		t.Errorf("no devices: %v, %v", got, err)
	}
}

func TestFindTellsWhatItCannotExamine(t *testing.T) {
	root := node(t, map[string]process{
		"7": {comm: "a", fds: map[string]string{"3": "/dev/null"}},
		"8": {comm: "b"},
		"9": {comm: "ended"},
	})
	// A file where a folder is expected fails for root too.
	assert.NilError(t, os.RemoveAll(root.Proc+"/8/fd"))
	write(t, root.Proc+"/8/fd", "")
	assert.NilError(t, os.RemoveAll(root.Proc+"/9"))
	assert.NilError(t, os.Mkdir(root.Proc+"/9", 0o755))
	got, err := holders.Find(t.Context(), root, null)
	if err == nil || !strings.Contains(err.Error(), "cannot examine a process ") || len(got) != 1 || got[0].PID != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := holders.Find(ended, root, null); err == nil {
		t.Error("it did not stop")
	}
	if _, err := holders.Find(t.Context(), procowner.Root{Proc: t.TempDir() + "/none"}, null); err == nil {
		t.Error("a node without processes was read")
	}
}

func TestFindsThisProcess(t *testing.T) {
	f, err := os.Open("/dev/full")
	assert.NilError(t, err)
	defer f.Close()
	// The kernel keeps 15 bytes of a program's name.
	name := filepath.Base(os.Args[0])
	name = name[:min(len(name), 15)]
	// A sandbox may hide a part of its first process, so that an error is none of this test.
	got, err := holders.Find(t.Context(), procowner.Root{}, []holders.Devices{{Major: 1, Minors: []uint32{7}}})
	if !slices.ContainsFunc(got, func(h holders.Holder) bool {
		return h.PID == os.Getpid() && slices.Equal(h.Devices, []string{"/dev/full"}) && h.Command == name
	}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFindsAMappingWhoseFileIsClosed(t *testing.T) {
	f, err := os.Open("/dev/mem")
	if err != nil {
		t.Skip("this machine has no /dev/mem that can be read:", err)
	}
	// The BIOS, which the kernel lets programs map.
	data, err := unix.Mmap(int(f.Fd()), 0xf0000, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	f.Close()
	if err != nil {
		t.Skip("this machine has no BIOS that can be mapped:", err)
	}
	defer func() {
		if err := unix.Munmap(data); err != nil {
			t.Error(err)
		}
	}()
	got, err := holders.Find(t.Context(), procowner.Root{}, []holders.Devices{{Major: 1, Minors: []uint32{1}}})
	if err != nil || !slices.ContainsFunc(got, func(h holders.Holder) bool {
		return h.PID == os.Getpid() && slices.Equal(h.Devices, []string{"/dev/mem"})
	}) {
		t.Errorf("%+v, %v", got, err)
	}
}
