package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a running engine.
type process struct {
	pid, parent int
	// exe is the path of the program in the process's own file system, args the command line.
	exe  string
	args []string
	env  []string
	// cwd is the base of relative paths on the command line.
	cwd string
	// start is the start time, in nanoseconds since the boot.
	start int64
	// unit is the systemd unit of the process, or "".
	unit string
}

// program returns the name of the engine's program.
func (n Name) program() string {
	if n == Docker {
		return "dockerd"
	}
	return string(n)
}

// processes returns the processes of an engine that see the host's file system. It omits
// engines inside of containers.
func (h host) processes(engine Name) ([]process, error) {
	entries, err := os.ReadDir(h.proc)
	if err != nil {
		return nil, fmt.Errorf("find the process of %s: %w", engine, err)
	}
	var out []process
	var denied error
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := h.program(pid)
		if !p.runs(engine.program()) || p.ends() {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = fmt.Errorf("find the process of %s: %w: run as root with CAP_SYS_PTRACE", engine, err)
			continue
		}
		if p, ok := h.process(pid); err == nil && ok && h.onHost(pid) && h.trusted(pid) {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		denied = nil
	}
	return out, denied
}

// program returns the program and the command line of a process. If the link to the program
// cannot be read, it returns an error together with the command line.
func (h host) program(pid int) (process, error) {
	dir := filepath.Join(h.proc, strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	return process{pid: pid, exe: strings.TrimSuffix(exe, " (deleted)"), args: readStrings(filepath.Join(dir, "cmdline"))}, err
}

// process reads a process. It returns false if the process does not exist or has no program.
func (h host) process(pid int) (process, bool) {
	p, err := h.program(pid)
	if err != nil {
		return process{}, false
	}
	dir := filepath.Join(h.proc, strconv.Itoa(pid))
	p.env = readStrings(filepath.Join(dir, "environ"))
	p.cwd, _ = os.Readlink(filepath.Join(dir, "cwd")) // "": relative paths are below /
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, false
	}
	p.parent, p.start = parseStat(stat)
	cgroup, _ := os.ReadFile(filepath.Join(dir, "cgroup")) // no cgroups: no unit
	p.unit = unitOf(string(cgroup))
	return p, true
}

// readStrings returns the strings of a file in /proc, which are separated by zero bytes.
func readStrings(path string) []string {
	data, _ := os.ReadFile(path) // an error means that the process has ended
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// parseStat returns the parent and the start time of a process, from /proc/PID/stat.
func parseStat(stat []byte) (parent int, start int64) {
	// The name of the program may contain spaces and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(fields[1])
	ticks, _ := strconv.ParseInt(fields[19], 10, 64)
	const nanosecondsPerTick = 1e9 / 100 // USER_HZ is 100 on all architectures of Go
	return parent, ticks * nanosecondsPerTick
}

// unitOf returns the systemd service in a cgroup file.
func unitOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		for _, part := range slices.Backward(strings.Split(strings.TrimSpace(line), "/")) {
			if strings.HasSuffix(part, ".service") {
				return part
			}
		}
	}
	return ""
}

// runs reports whether a process runs a program. It compares both the program's file and the first
// argument, because the file of k3s contains many programs.
func (p process) runs(program string) bool {
	return filepath.Base(p.exe) == program || len(p.args) > 0 && filepath.Base(p.args[0]) == program
}

// ends reports whether a process runs a command of an engine that ends by itself. Shims run "containerd publish",
// and this package, other programs and people ask an engine's program for its version or its config.
func (p process) ends() bool {
	commands := []string{"-v", "--version", "-h", "--help", "--validate", "check", "config", "oci-hook", "publish", "status", "version", "wipe"}
	return len(p.args) > 1 && slices.ContainsFunc(p.args[1:], func(arg string) bool { return slices.Contains(commands, arg) })
}

// onHost reports whether a process has the root of the host.
func (h host) onHost(pid int) bool {
	var own, root unix.Stat_t
	return unix.Stat(filepath.Join(h.proc, strconv.Itoa(pid), "root")+"/", &own) == nil &&
		unix.Stat(h.root+"/", &root) == nil && own.Dev == root.Dev && own.Ino == root.Ino
}

// trusted reports whether root, or the user of this process, started a process. Any user can
// give a program the name of an engine, but this package runs the program of an engine, and
// edits the file on its command line.
func (h host) trusted(pid int) bool {
	data, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		ids, ok := strings.CutPrefix(line, "Uid:")
		if !ok {
			continue
		}
		// The first ID is the real user ID, which a set-user-ID program does not change.
		user, _, _ := strings.Cut(strings.TrimSpace(ids), "\t")
		return user == "0" || user == strconv.Itoa(os.Getuid())
	}
	return false
}

// option returns the value of a command-line option, or "". If it is repeated, the last one counts.
func (p process) option(names ...string) string {
	all := p.options(names...)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// options returns the values of a command-line option that can be repeated.
func (p process) options(names ...string) []string {
	var values []string
	for i, arg := range p.args {
		name, v, ok := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "-") || !slices.Contains(names, strings.TrimLeft(name, "-")) {
			continue
		}
		switch {
		case ok:
			values = append(values, v)
		case i+1 < len(p.args):
			values = append(values, p.args[i+1])
		}
	}
	return values
}

// path returns the value of an option as an absolute path.
func (p process) path(names ...string) string {
	v := p.option(names...)
	if v == "" || filepath.IsAbs(v) {
		return v
	}
	return filepath.Join("/", p.cwd, v)
}

// variable returns a variable of the process, or "".
func (p process) variable(name string) string {
	for _, v := range p.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
