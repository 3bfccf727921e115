package install

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// bundles is the folder of containerd that has one folder for each container, in which the
// file runtime names the low-level runtime (containerd, runtime/v2).
const bundles = "io.containerd.runtime.v2.task"

// maxLine bounds what is read of a command line.
const maxLine = 128 << 10

// Users returns what runs on the host that still needs the tools in the folder: containers
// that an engine started through a tool, and to stop which it starts the tool again, as
// paths of their bundles or as "process 42". proc is the host's /proc, and root where this
// process sees the host's root.
func Users(proc, root, tools string) []string {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil
	}
	prefix := strings.TrimSuffix(tools, "/") + "/"
	var users []string
	seen := map[string]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		if commandLineHas(dir, prefix) {
			users = append(users, "process "+e.Name())
		}
		// A shim of containerd runs in the bundle of its first container.
		cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
		if err != nil || filepath.Base(filepath.Dir(filepath.Dir(cwd))) != bundles || seen[filepath.Dir(cwd)] {
			continue
		}
		seen[filepath.Dir(cwd)] = true
		users = append(users, startedBundles(root, filepath.Dir(cwd), prefix)...)
	}
	slices.Sort(users)
	return users
}

// commandLineHas reports whether a word on the command line of a process begins with the prefix:
// conmon gets the path of the runtime so, for the life of its container.
func commandLineHas(process, prefix string) bool {
	line, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil || len(line) > maxLine {
		return false
	}
	return slices.ContainsFunc(bytes.Split(line, []byte{0}), func(word []byte) bool {
		return bytes.HasPrefix(word, []byte(prefix))
	})
}

// startedBundles returns the bundles in a folder whose runtime is below the prefix.
func startedBundles(root, folder, prefix string) []string {
	entries, err := os.ReadDir(filepath.Join(root, folder))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		data, err := hostfs.ReadFile(filepath.Join(root, folder, e.Name(), "runtime"), maxLine)
		if err == nil && strings.HasPrefix(string(data), prefix) {
			out = append(out, filepath.Join(folder, e.Name()))
		}
	}
	return out
}
