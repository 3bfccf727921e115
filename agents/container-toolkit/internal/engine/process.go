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
	// exe is the program, as its own file system names it, and args its command line.
	exe  string
	args []string
	env  []string
	// cwd is the folder to which relative paths on its command line belong.
	cwd string
	// start is when it started, in nanoseconds since the boot.
	start int64
	// unit is the systemd unit that it belongs to, or "".
	unit string
}

// program returns the name of the engine's program.
func (n Name) program() string {
	if n == Docker {
		return "dockerd"
	}
	return string(n)
}

// processes returns the processes of an engine that see the host's own file system:
// engines inside of containers do not count.
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
		if !p.runs(engine.program()) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = fmt.Errorf("find the process of %s: %w: run as root with CAP_SYS_PTRACE", engine, err)
			continue
		}
		if p, ok := h.process(pid); err == nil && ok && h.onHost(pid) {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		denied = nil
	}
	return out, denied
}

// program reads what tells which program a process runs. The error says that its file
// cannot be read; its command line is there all the same.
func (h host) program(pid int) (process, error) {
	dir := filepath.Join(h.proc, strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	return process{pid: pid, exe: strings.TrimSuffix(exe, " (deleted)"), args: lines(filepath.Join(dir, "cmdline"))}, err
}

// process reads a process. It reports false if there is none, or it has no program.
func (h host) process(pid int) (process, bool) {
	p, err := h.program(pid)
	if err != nil {
		return process{}, false
	}
	dir := filepath.Join(h.proc, strconv.Itoa(pid))
	p.env = lines(filepath.Join(dir, "environ"))
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

// lines returns the strings of a file in /proc that separates them by zero bytes.
func lines(path string) []string {
	data, _ := os.ReadFile(path) // the process has ended
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// parseStat returns the parent of a process, and when it started, from /proc/PID/stat.
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

// runs reports whether a process runs a program, by its file or by the name with which it
// was started: the file of k3s has many programs.
func (p process) runs(program string) bool {
	return filepath.Base(p.exe) == program || len(p.args) > 0 && filepath.Base(p.args[0]) == program
}

// onHost reports whether the root of a process is that of the host.
func (h host) onHost(pid int) bool {
	var own, root unix.Stat_t
	return unix.Stat(filepath.Join(h.proc, strconv.Itoa(pid), "root")+"/", &own) == nil &&
		unix.Stat(h.root+"/", &root) == nil && own.Dev == root.Dev && own.Ino == root.Ino
}

// option returns the value of an option on the command line, or "".
func (p process) option(names ...string) string {
	value := ""
	for i, arg := range p.args {
		name, v, ok := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "-") || !slices.Contains(names, strings.TrimLeft(name, "-")) {
			continue
		}
		switch {
		case ok:
			value = v
		case i+1 < len(p.args):
			value = p.args[i+1]
		}
	}
	return value
}

// path returns the value of an option that is a path, as an absolute one.
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

// find returns the process of the engine, or nil if it does not run. socket and config may
// be "": they select one of several.
func (h host) find(engine Name, socket, config string) (*process, error) {
	all, err := h.processes(engine)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p process) bool {
		// dockerd runs a containerd of its own, with a config that it writes itself.
		parent, ok := h.process(p.parent)
		return ok && parent.runs(Docker.program())
	})
	if socket != "" {
		all = h.listens(all, engine, socket)
	}
	if with := slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.configPath(engine) != config }); len(with) > 0 {
		all = with
	}
	if len(all) > 1 {
		if i := slices.IndexFunc(all, func(p process) bool { return p.socketPath(engine) == engine.socket() }); i >= 0 {
			return &all[i], nil
		}
		return nil, fmt.Errorf("find the process of %s: %d are running: set --runtime-socket to the socket of one", engine, len(all))
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // no process is no error
	}
	return &all[0], nil
}

// listens returns those processes that listen on a socket.
func (h host) listens(all []process, engine Name, socket string) []process {
	const systemd = 1
	switch pid := h.peer(socket); pid {
	case 0:
		return slices.DeleteFunc(all, func(p process) bool { return !h.sameFile(p.socketPath(engine), socket) })
	case systemd:
		return all
	default:
		return slices.DeleteFunc(all, func(p process) bool { return p.pid != pid })
	}
}

// sameFile reports whether two paths of the host lead to the same file.
func (h host) sameFile(a, b string) bool {
	x, errA := h.path(a)
	y, errB := h.path(b)
	return errA == nil && errB == nil && x == y
}

// socket returns the engine's default socket.
func (n Name) socket() string {
	switch n {
	case Docker:
		return "/var/run/docker.sock"
	case CRIO:
		return "/var/run/crio/crio.sock"
	default:
		return "/run/containerd/containerd.sock"
	}
}

// configPath returns the config file that a process was started with.
func (p process) configPath(engine Name) string {
	switch engine {
	case Docker:
		if v := p.path("config-file"); v != "" {
			return v
		}
		if dir := p.variable("XDG_CONFIG_HOME"); dir != "" && p.variable("ROOTLESSKIT_STATE_DIR") != "" {
			return filepath.Join(dir, "docker/daemon.json")
		}
		return dockerConfig
	case CRIO:
		if v := p.path("config", "c"); v != "" {
			return v
		}
		if v := p.variable("CONTAINER_CONFIG"); v != "" {
			return v
		}
		return crioConfig
	default:
		if v := p.path("config", "c"); v != "" {
			return v
		}
		return containerdConfig
	}
}

// socketPath returns the socket that the command line of a process names, or the default.
func (p process) socketPath(engine Name) string {
	option := map[Name][]string{Docker: {"host", "H"}, Containerd: {"address", "a"}, CRIO: {"listen"}}[engine]
	if v := strings.TrimPrefix(p.option(option...), "unix://"); filepath.IsAbs(v) {
		return v
	}
	return engine.socket()
}

// peer returns the process that listens on a socket of the host, or 0. A socket that
// systemd made has systemd as its peer, which is no process of the engine.
func (h host) peer(socket string) int {
	real, err := h.path(socket)
	if err != nil {
		return 0
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }() // nothing is written
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: real}); err != nil {
		return 0
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}
