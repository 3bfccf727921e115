package shim

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/pkg/text"
)

// defaultPath is searched after the PATH of the process, which many engines leave empty.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// packagedPath has the folders where packages of CRI-O install low-level runtimes. They are not in
// PATH.
const packagedPath = "/usr/libexec/crio:/usr/lib/cri-o-runc/sbin"

// findRuntime returns the path of the low-level runtime: the first program in names that is not
// this program, and for which accept returns true. If accept rejects all programs, findRuntime
// returns the first of them.
func findRuntime(names []string, path string, accept func(file string) bool) (string, error) {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("find the low-level runtime: %w", err)
	}
	path = strings.Trim(path+":"+defaultPath+":"+packagedPath, ":")
	first := ""
	for _, name := range names {
		for _, file := range candidates(name, path) {
			if info := program(file); info == nil || os.SameFile(info, self) {
				continue
			}
			first = cmp.Or(first, file)
			if accept(file) {
				return file, nil
			}
		}
	}
	if first != "" {
		return first, nil
	}
	return "", fmt.Errorf("find the low-level runtime: there is no %s in %s: install one of them, or set nvidia-container-runtime.runtimes in config.toml",
		text.OneOf(names), path)
}

// anyRuntime accepts the first low-level runtime.
func anyRuntime(string) bool { return true }

// hasCreated reports whether a low-level runtime has the state of the container that an argument
// names. root is the folder of the states; "" is the default of the runtime. crun names the file of
// the state differently from other runtimes, such as runc.
func hasCreated(runtime, root string, args []string) bool {
	state, folder := "state.json", "/run/runc"
	if filepath.Base(runtime) == "crun" {
		state, folder = "status", "/run/crun"
	}
	return slices.ContainsFunc(args, func(id string) bool {
		if id != filepath.Base(id) || id == "." || id == ".." {
			return false
		}
		_, err := os.Lstat(filepath.Join(cmp.Or(root, folder), id, state))
		return err == nil
	})
}

// candidates returns the paths where a program with this name may be installed.
func candidates(name, path string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	var out []string
	for dir := range strings.SplitSeq(path, ":") {
		if filepath.IsAbs(dir) {
			out = append(out, filepath.Join(dir, name))
		}
	}
	return out
}

// program returns the file at a path, or nil if the file is not executable.
func program(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil
	}
	return info
}

// FindTool returns the path of a tool of the container toolkit. It searches the folder of this
// program first, then path. It returns "" if it does not find the tool.
func FindTool(name, path string) string {
	files := candidates(name, path+":"+defaultPath)
	if self, err := os.Readlink("/proc/self/exe"); err == nil && !filepath.IsAbs(name) {
		files = append([]string{filepath.Join(filepath.Dir(self), name)}, files...)
	}
	for _, file := range files {
		if program(file) != nil {
			return file
		}
	}
	return ""
}

// FindHook returns the path of the prestart hook.
func FindHook(name, path string) (string, error) {
	if file := FindTool(name, path); file != "" {
		return file, nil
	}
	return "", fmt.Errorf("inject GPUs in the mode legacy: there is no program %s: install nvidia-container-toolkit, or set nvidia-container-runtime-hook.path in config.toml", name)
}
