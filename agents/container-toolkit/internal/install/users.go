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

// bundles is the folder of containerd (runtime/v2) that has one folder for each container. The
// file runtime in that folder names the low-level runtime.
const bundles = "io.containerd.runtime.v2.task"

// maxLine limits the size of a command line or a file runtime, in bytes.
const maxLine = 128 << 10

// Users returns the containers on the host that still need the tools in a folder. An engine
// started them through a tool, and starts the same tool again to stop them. The result contains
// the paths of bundles, and processes such as "process 42". proc is the host's /proc, root the
// folder where this process sees the host's root.
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

// commandLineHas reports whether an argument of a process begins with the prefix. conmon, which
// runs as long as its container, has the path of the runtime as an argument.
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
