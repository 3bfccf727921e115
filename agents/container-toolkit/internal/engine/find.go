package engine

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// findProcess returns the process of the engine, or nil if it does not run. socket and config
// select one of several processes, if they are not "". Otherwise the default socket does.
func (h host) findProcess(engine Name, socket, config string) (*process, error) {
	all, err := h.running(engine)
	if err != nil {
		return nil, err
	}
	if socket != "" {
		all = h.listeningOn(all, engine, socket)
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
		return nil, nil //nolint:nilnil // nil means that the engine does not run
	}
	return &all[0], nil
}

// listeningOn returns the processes that listen on a socket.
func (h host) listeningOn(all []process, engine Name, socket string) []process {
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

// rootlessVariable is a variable of a dockerd that a user other than root has started.
const rootlessVariable = "ROOTLESSKIT_STATE_DIR"

// configPath returns the config file that a process was started with.
func (p process) configPath(engine Name) string {
	switch engine {
	case Docker:
		if v := p.path("config-file"); v != "" {
			return v
		}
		if p.variable(rootlessVariable) != "" {
			dir := p.variable("XDG_CONFIG_HOME")
			if home := p.variable("HOME"); dir == "" && home != "" {
				dir = filepath.Join(home, ".config")
			}
			if dir != "" {
				return filepath.Join(dir, "docker/daemon.json")
			}
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

// socketPath returns the socket that a process was started with, or the default.
func (p process) socketPath(engine Name) string {
	return cmp.Or(p.givenSocket(engine), engine.socket())
}

// givenSocket returns the socket on the command line or in a variable of a process, or "".
func (p process) givenSocket(engine Name) string {
	option := map[Name][]string{Docker: {"host", "H"}, Containerd: {"address", "a"}, CRIO: {"listen"}}[engine]
	value := p.option(option...)
	if engine == CRIO {
		value = cmp.Or(value, p.variable("CONTAINER_LISTEN"))
	}
	if v := strings.TrimPrefix(value, "unix://"); filepath.IsAbs(v) {
		return v
	}
	return ""
}

// peer returns the ID of the process that listens on a socket of the host, or 0. If systemd
// created the socket, its peer is systemd, which is not a process of the engine.
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
