package shim

import (
	"slices"
	"strings"
)

// call is the command line of an OCI runtime.
type call struct {
	// command is empty if the command line has no command.
	command string
	// root is the folder of the states of containers. Empty means the default of the runtime.
	root string
	// bundle is the folder of the bundle. Empty means the current folder.
	bundle string
	// version is set if the command line asks for the version.
	version bool
	// log is the path of the runtime's log file, or empty.
	log string
	// json is set if the log file is in JSON.
	json  bool
	debug bool
}

// creates reports whether the call creates a container.
func (c call) creates() bool { return c.command == "create" || c.command == "run" }

// parseCall reads the arguments after the name of the program. It knows the flags of runc and crun.
// An unknown flag without "=" has a value if the next argument is neither a flag nor a command.
func parseCall(args []string) call {
	var c call
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if c.command == "" {
				c.command = arg
			}
			continue
		}
		name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !inline && i+1 < len(args) && c.takesValue(name, args[i+1]) {
			i++
			value = args[i]
		}
		c.set(name, value)
	}
	return c
}

// takesValue reports whether a flag has its value in the next argument.
func (c call) takesValue(name, next string) bool {
	switch {
	case c.command != "":
		return slices.Contains([]string{"bundle", "b", "console-socket", "pid-file", "preserve-fds"}, name)
	case slices.Contains([]string{"log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager", "bundle", "b"}, name):
		return true
	case slices.Contains([]string{"debug", "systemd-cgroup", "help", "h", "version", "v"}, name):
		return false
	}
	return !strings.HasPrefix(next, "-") && !slices.Contains(commands(), next)
}

func (c *call) set(name, value string) {
	switch name {
	case "bundle", "b":
		c.bundle = value
	case "root":
		c.root = value
	case "log":
		c.log = value
	case "log-format":
		c.json = value == "json"
	case "debug":
		c.debug = true
	case "version", "v":
		c.version = c.version || c.command == ""
	}
}

// commands returns the commands of OCI runtimes.
func commands() []string {
	return []string{
		"checkpoint", "create", "delete", "events", "exec", "features", "init", "kill", "list", "pause", "ps",
		"restore", "resume", "run", "spec", "start", "state", "update",
	}
}
