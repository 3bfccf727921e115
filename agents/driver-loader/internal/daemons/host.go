package daemons

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// onHost calls f on a thread in the mount namespace of the host's first process. A program that f
// starts sees the host's files, and does not depend on the files of the agent's container.
func onHost(proc string, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// /proc/self shows the namespace of the first thread, which must not change. Block this
			// thread, so that f runs on another one.
			defer runtime.UnlockOSThread()
			result <- onHost(proc, f)
			return
		}
		// The thread stays locked, so that it ends with the goroutine.
		err := enter(filepath.Join(proc, "1/ns/mnt"))
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// enter moves the calling thread into a mount namespace.
func enter(namespace string) error {
	ns, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("enter the host's mount namespace: %w", err)
	}
	defer ns.Close()
	// A thread that shares its root and working folder with others cannot enter a mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the host's mount namespace: %w", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the host's mount namespace: %w", err)
	}
	return nil
}

// leaveContainer moves the process of a daemon to the root of all cgroups. Processes in the cgroups
// of the container are killed with the container.
func (s *Supervisor) leaveContainer(d Daemon, pid int) error {
	root := filepath.Join(s.cfg.Host, "sys/fs/cgroup")
	files := []string{filepath.Join(root, "cgroup.procs")}
	if _, err := os.Stat(files[0]); errors.Is(err, fs.ErrNotExist) {
		// cgroup v1 has a hierarchy for each controller.
		if files, err = filepath.Glob(filepath.Join(root, "*", "cgroup.procs")); err != nil {
			return err
		}
	}
	var errs []error
	for _, file := range files {
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil { //nolint:gosec // a file of the kernel
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("move %s (pid %d) out of the agent's container: %w", d.Name, pid, err)
	}
	return nil
}
