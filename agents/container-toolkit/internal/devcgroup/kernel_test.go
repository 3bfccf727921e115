package devcgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/devcgroup"
)

// The tests of this file ask the kernel: a process in a cgroup opens device nodes.
// They run the test's own binary as that process, and take devices that every Linux
// has: /dev/null, /dev/zero and /dev/full.

const openerVariable = "DEVCGROUP_TEST_OPEN"

func TestMain(m *testing.M) {
	if nodes := os.Getenv(openerVariable); nodes != "" {
		openAll(strings.Split(nodes, ","))
		return
	}
	os.Exit(m.Run())
}

// openAll waits until it is in its cgroup, and prints what it may do with the nodes.
func openAll(nodes []string) {
	_, _ = os.Stdin.Read(make([]byte, 1))
	for _, n := range nodes {
		path, action, _ := strings.Cut(n, ":")
		var err error
		if action == "mknod" {
			var st unix.Stat_t
			if err = unix.Stat(path, &st); err == nil {
				made := filepath.Join(os.TempDir(), fmt.Sprint("devcgroup", os.Getpid()))
				err = unix.Mknod(made, unix.S_IFCHR|0o600, int(st.Rdev))
				_ = os.Remove(made)
			}
		} else {
			var f *os.File
			if f, err = os.OpenFile(path, os.O_RDWR, 0); err == nil {
				err = f.Close()
			}
		}
		word := "yes"
		if errors.Is(err, syscall.EPERM) {
			word = "no"
		} else if err != nil {
			word = err.Error()
		}
		fmt.Printf("%s=%s ", n, word)
	}
}

// newCgroup makes a cgroup in a mount of a kind of hierarchy.
func newCgroup(t *testing.T, fstype, option string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this machine has no root for the test: it makes cgroups")
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		if super := strings.Fields(after); super[0] == fstype && strings.Contains(super[2]+",", option+",") {
			dir, err := os.MkdirTemp(strings.Fields(before)[4], "devcgroup-test") //nolint:usetesting // a cgroup
			assert.NilError(t, err)
			t.Cleanup(func() { assert.NilError(t, unix.Rmdir(dir)) })
			return dir
		}
	}
	t.Skipf("this machine has no mount of %s with %q", fstype, option)
	return ""
}

// open returns what a process in the cgroup may do: "/dev/null=yes /dev/full:mknod=no".
func open(t *testing.T, cgroup string, nodes ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), openerVariable+"="+strings.Join(nodes, ","))
	in, err := cmd.StdinPipe()
	assert.NilError(t, err)
	var out strings.Builder
	cmd.Stdout = &out
	assert.NilError(t, cmd.Start())
	joined := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0)
	assert.NilError(t, in.Close())
	assert.NilError(t, cmd.Wait())
	assert.NilError(t, joined)
	return strings.TrimSpace(out.String())
}

func device(t *testing.T, node string) devcgroup.Device {
	t.Helper()
	d, err := devcgroup.DeviceOf(node)
	assert.NilError(t, err)
	return d
}

func TestAllowByFile(t *testing.T) {
	dir := newCgroup(t, "cgroup", "devices")
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "devices.deny"), []byte("a"), 0))
	assert.Equal(t, open(t, dir, "/dev/zero", "/dev/full"), "/dev/zero=no /dev/full=no")
	c := devcgroup.Cgroup{Version: 1, Path: dir}
	assert.NilError(t, c.Allow([]devcgroup.Device{device(t, "/dev/zero")}))
	assert.Equal(t, open(t, dir, "/dev/zero", "/dev/full", "/dev/zero:mknod"), "/dev/zero=yes /dev/full=no /dev/zero:mknod=no")
	assert.NilError(t, c.Allow(nil))
}

func TestAllowByFileBelowACgroupThatDoesNot(t *testing.T) {
	above := newCgroup(t, "cgroup", "devices")
	assert.NilError(t, os.WriteFile(filepath.Join(above, "devices.deny"), []byte("a"), 0))
	dir := filepath.Join(above, "container")
	assert.NilError(t, os.Mkdir(dir, 0o755))
	defer func() { assert.NilError(t, unix.Rmdir(dir)) }()
	err := devcgroup.Cgroup{Version: 1, Path: dir}.Allow([]devcgroup.Device{device(t, "/dev/zero")})
	assert.ErrorContains(t, err, "the cgroup above it does not allow the device")
}

// attach puts a program into a cgroup for the time of the test.
func attach(t *testing.T, dir string, flags uint32, instructions asm.Instructions) {
	t.Helper()
	cgroup, err := os.Open(dir)
	assert.NilError(t, err)
	defer cgroup.Close()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.CGroupDevice, Instructions: instructions, License: "GPL"})
	if errors.Is(err, unix.EPERM) || errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("this machine has no BPF for the test: %v", err)
	}
	assert.NilError(t, err)
	defer p.Close()
	assert.NilError(t, link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(cgroup.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice, Flags: flags,
	}))
}

// detach removes the programs of a cgroup.
func detach(t *testing.T, dir string) {
	t.Helper()
	cgroup, err := os.Open(dir)
	assert.NilError(t, err)
	defer cgroup.Close()
	for _, id := range attached(t, dir) {
		p, err := ebpf.NewProgramFromID(id)
		assert.NilError(t, err)
		assert.NilError(t, link.RawDetachProgram(link.RawDetachProgramOptions{Target: int(cgroup.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice}))
		assert.NilError(t, p.Close())
	}
}

func attached(t *testing.T, dir string) []ebpf.ProgramID {
	t.Helper()
	cgroup, err := os.Open(dir)
	assert.NilError(t, err)
	defer cgroup.Close()
	got, err := link.QueryPrograms(link.QueryOptions{Target: int(cgroup.Fd()), Attach: ebpf.AttachCGroupDevice})
	assert.NilError(t, err)
	var ids []ebpf.ProgramID
	for _, p := range got.Programs {
		ids = append(ids, p.ID)
	}
	return ids
}

// like runc's: a list of devices that are allowed, after the access is taken apart.
func allowOnly(t *testing.T, node string) asm.Instructions {
	d := device(t, node)
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.And.Imm32(asm.R2, 0xffff),
		asm.LoadMem(asm.R3, asm.R1, 0, asm.Word),
		asm.RSh.Imm32(asm.R3, 16),
		asm.LoadMem(asm.R4, asm.R1, 4, asm.Word),
		asm.LoadMem(asm.R5, asm.R1, 8, asm.Word),
		asm.JNE.Imm(asm.R2, 2, "deny"),
		asm.JNE.Imm(asm.R4, int32(d.Major), "deny"),
		asm.JNE.Imm(asm.R5, int32(d.Minor), "deny"),
		asm.Mov.Imm32(asm.R0, 1),
		asm.Return(),
		asm.Mov.Imm32(asm.R0, 0).WithSymbol("deny"),
		asm.Return(),
	}
}

func TestAllowByProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		flags uint32
		more  []asm.Instructions
	}{
		"one program, as runc attaches it":        {flags: unix.BPF_F_ALLOW_MULTI},
		"two programs, as with systemd's":         {flags: unix.BPF_F_ALLOW_MULTI, more: []asm.Instructions{allowOnly(t, "/dev/null")}},
		"a program that may be overridden":        {flags: unix.BPF_F_ALLOW_OVERRIDE},
		"a program that tolerates none beside it": {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newCgroup(t, "cgroup2", "")
			for _, p := range append(tc.more, allowOnly(t, "/dev/null")) {
				attach(t, dir, tc.flags, p)
			}
			before := attached(t, dir)
			assert.Equal(t, open(t, dir, "/dev/null", "/dev/zero", "/dev/full"), "/dev/null=yes /dev/zero=no /dev/full=no")

			c := devcgroup.Cgroup{Version: 2, Path: dir}
			assert.NilError(t, c.Allow([]devcgroup.Device{device(t, "/dev/zero"), {Major: 195, Minor: 255}}))
			assert.Equal(t,
				open(t, dir, "/dev/null", "/dev/zero", "/dev/full", "/dev/null:mknod", "/dev/zero:mknod", "/dev/tty"),
				"/dev/null=yes /dev/zero=yes /dev/full=no /dev/null:mknod=yes /dev/zero:mknod=no /dev/tty=no")
			assert.Equal(t, len(attached(t, dir)), len(before))

			assert.NilError(t, c.Allow([]devcgroup.Device{device(t, "/dev/full")}), "extend the extended program")
			assert.Equal(t, open(t, dir, "/dev/null", "/dev/zero", "/dev/full"), "/dev/null=yes /dev/zero=yes /dev/full=yes")
			assert.Equal(t, len(attached(t, dir)), len(before))
		})
	}
}

func TestAllowByProgramInACgroupWithoutOne(t *testing.T) {
	dir := newCgroup(t, "cgroup2", "")
	assert.NilError(t, devcgroup.Cgroup{Version: 2, Path: dir}.Allow([]devcgroup.Device{device(t, "/dev/zero")}))
	assert.Equal(t, len(attached(t, dir)), 0)
	assert.Equal(t, open(t, dir, "/dev/zero"), "/dev/zero=yes")
}

// TestAllowByProgramOfTheUnit has the program in the cgroup of the unit, and the process in
// one below it.
func TestAllowByProgramOfTheUnit(t *testing.T) {
	above := newCgroup(t, "cgroup2", "")
	attach(t, above, unix.BPF_F_ALLOW_MULTI, allowOnly(t, "/dev/full"))
	dir := filepath.Join(above, "a.scope", "container")
	for _, d := range []string{filepath.Dir(dir), dir} {
		assert.NilError(t, os.Mkdir(d, 0o755))
		defer func() { assert.NilError(t, unix.Rmdir(d)) }()
	}
	attach(t, filepath.Dir(dir), unix.BPF_F_ALLOW_MULTI, allowOnly(t, "/dev/full"))
	c := devcgroup.Cgroup{Version: 2, Path: dir, Unit: "a.scope"}
	before := attached(t, above)
	assert.NilError(t, c.Allow([]devcgroup.Device{device(t, "/dev/zero")}))
	assert.DeepEqual(t, attached(t, above), before)
	assert.Equal(t, open(t, dir, "/dev/zero", "/dev/full"), "/dev/zero=no /dev/full=yes")

	detach(t, above)
	assert.Equal(t, open(t, dir, "/dev/zero", "/dev/full", "/dev/null"), "/dev/zero=yes /dev/full=yes /dev/null=no")
}

// TestAllowByProgramThatCannotBeExtended has a program that decides by something that
// is not among its instructions. It must stay as it is.
func TestAllowByProgramThatCannotBeExtended(t *testing.T) {
	dir := newCgroup(t, "cgroup2", "")
	attach(t, dir, unix.BPF_F_ALLOW_MULTI, asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
	})
	before := attached(t, dir)
	err := devcgroup.Cgroup{Version: 2, Path: dir}.Allow([]devcgroup.Device{device(t, "/dev/zero")})
	assert.ErrorContains(t, err, "it calls a function")
	assert.DeepEqual(t, attached(t, dir), before)
	assert.Equal(t, open(t, dir, "/dev/zero"), "/dev/zero=no")
}

func TestDeviceOf(t *testing.T) {
	assert.Equal(t, device(t, "/dev/null"), devcgroup.Device{Major: 1, Minor: 3})
	_, err := devcgroup.DeviceOf("/etc/passwd")
	assert.ErrorContains(t, err, "not a character device")
	_, err = devcgroup.DeviceOf("/dev/nothing")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
