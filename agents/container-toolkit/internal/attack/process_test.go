package attack_test

import (
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

// CVE-2025-23266: a runtime gives the hook the environment of the container, whose
// LD_PRELOAD names a library of the image, by way of the hook's working folder.
func TestPreloadFromTheImage(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("this machine has no gcc")
	}
	v := newVictim(t)
	escaped := filepath.Join(v.dir, "canary/escaped")
	v.file("poc.c", `#include <fcntl.h>
__attribute__((constructor)) static void run(void) { open("`+escaped+`", O_CREAT | O_WRONLY, 0600); }`)
	if out, err := exec.CommandContext(t.Context(), gcc, "-shared", "-fPIC", "-o", v.rootfs("poc.so"), filepath.Join(v.dir, "poc.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	v.arm()
	hostile := []string{
		"LD_PRELOAD=/proc/self/cwd/poc.so", "LD_AUDIT=/proc/self/cwd/poc.so", "LD_LIBRARY_PATH=/proc/self/cwd",
		"PATH=/proc/self/cwd", "GODEBUG=inittrace=1", "GOTRACEBACK=crash", "NVIDIA_CTK_CONFIG_FILE_PATH=/proc/self/cwd/config.toml",
	}
	for hook, args := range hooks(t) {
		cmd := v.tool("nvidia-cdi-hook", args...)
		cmd.Env = hostile
		if !v.finish(cmd) && hook != "chmod" {
			t.Errorf("%s does not work in the environment of a container", hook)
		}
	}
	v.check()
	// The trap works: a program that is linked dynamically falls into it.
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	cmd.Dir, cmd.Env = v.rootfs(""), hostile
	_ = cmd.Run()
	if _, err := os.Stat(escaped); err != nil {
		t.Skipf("this machine has no dynamic linker that takes LD_PRELOAD: %v", err)
	}
}

// Nothing can be preloaded into a program without an interpreter.
func TestToolsAreStatic(t *testing.T) {
	v := newVictim(t)
	for _, name := range []string{"nvidia-cdi-hook"} {
		f, err := elf.Open(v.tool(name).Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s is linked dynamically", name)
			}
		}
	}
}

// CVE-2024-0136 and CVE-2024-0137 (ldconfig of the container is run with the host's
// rights and namespaces): no program and no library of the image is run.
func TestNothingOfTheImageIsRun(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	for hook, args := range hooks(t) {
		t.Run(hook, func(t *testing.T) {
			v := newVictim(t)
			escaped := filepath.Join(v.dir, "canary/escaped")
			script := "#!/bin/sh\ntouch " + escaped + "\n"
			for _, name := range []string{"sbin/ldconfig", "sbin/ldconfig.real", "usr/sbin/ldconfig", "bin/sh", "usr/bin/nvidia-cdi-hook"} {
				v.image(name, script)
				v.must(os.Chmod(v.rootfs(name), 0o755))
			}
			v.image("etc/ld.so.preload", "/poc.so\n")
			v.arm()
			fd := v.watchRun("sbin", "usr/sbin", "bin", "usr/bin")
			v.run(args...)
			v.check()
			b := make([]byte, 4096)
			if n, err := unix.Read(fd, b); err != unix.EAGAIN {
				t.Errorf("a program of the image was opened: %q, %v", b[:max(n, 0)], err)
			}
		})
	}
}

// watchRun watches for programs of the image that are opened.
func (v *victim) watchRun(dirs ...string) int {
	v.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	v.must(err)
	v.Cleanup(func() { unix.Close(fd) })
	for _, d := range dirs {
		_, err := unix.InotifyAddWatch(fd, v.rootfs(d), unix.IN_OPEN|unix.IN_ACCESS)
		v.must(err)
	}
	return fd
}

// CVE-2024-0135: a process of the container opens the program of the hook through /proc,
// to write to the host's file later.
func TestTheProgramIsNotReachedThroughProc(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this machine has no root user for the tests")
	}
	v := newVictim(t)
	cmd := v.tool("nvidia-cdi-hook", "create-symlinks", "--link", "a::/b")
	// The hook as a user without rights, who waits for its input.
	const user = 12345
	v.must(os.Chmod(filepath.Dir(filepath.Dir(cmd.Path)), 0o755))
	v.must(os.Chmod(filepath.Dir(cmd.Path), 0o755))
	program := filepath.Join(v.dir, "hook")
	data, err := os.ReadFile(cmd.Path)
	v.must(err)
	v.must(os.WriteFile(program, data, 0o755))
	cmd.Path = program
	v.must(os.Chmod(filepath.Dir(v.dir), 0o755))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	cmd.Stdin = nil
	in, err := cmd.StdinPipe()
	v.must(err)
	out, err := cmd.StderrPipe()
	v.must(err)
	v.must(cmd.Start())
	// Once the pipe is empty, the hook has started to read its state: it is confined.
	for {
		_, err := in.Write([]byte(" "))
		v.must(err)
		if left, err := unix.IoctlGetInt(int(in.(*os.File).Fd()), unix.TIOCINQ); err != nil || left == 0 {
			break
		}
	}
	other := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exec 3< /proc/"+strconv.Itoa(cmd.Process.Pid)+"/exe")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	text, err := other.CombinedOutput()
	if err == nil || !strings.Contains(string(text), "ermission denied") {
		t.Errorf("another process of the user opened the program: %v %s", err, text)
	}
	v.must(in.Close())
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
}
