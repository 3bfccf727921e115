package loadertest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
)

func (n Node) notify(format string, args ...any) {
	if n.At != nil {
		n.At(fmt.Sprintf(format, args...))
	}
}

// fileNames reports whether a file of the test node contains exactly the version.
func (n Node) fileNames(file, version string) bool {
	data, err := os.ReadFile(n.path(file))
	return err == nil && string(data) == version
}

// Load loads a module like the kernel.
func (n Node) Load(_ context.Context, m *module.Module, params []string) error {
	n.notify("load %s", m.Name)
	if text, err := os.ReadFile(n.path("failing/" + m.Name)); err == nil {
		return cause.Cause{Code: cause.ModuleInitFailed, Subject: "module " + m.Name, Text: string(text), Fix: "read the log"}
	}
	if m.Name == "nvidia" && n.fileNames("rejected", m.Version) {
		return cause.Cause{Code: cause.ModuleInitFailed, Subject: "module nvidia", Text: "its init failed", Fix: "read the log"}
	}
	if slices.Contains(m.Depends, "nvidia") && !n.fileNames("sys/module/nvidia/version", m.Version+"\n") {
		return cause.Cause{Code: cause.ModuleDependencyMissing, Subject: "module " + m.Name, Text: "nvidia of its version is not loaded"}
	}
	made := n.path("made/" + m.Name)
	files := map[string]string{"version": m.Version + "\n", "initstate": "live\n", "refcnt": "0\n", "taint": taint(m.License), "holders/.keep": ""}
	if id, err := hex.DecodeString(m.BuildID); err == nil && len(id) > 0 {
		files[buildID] = note(string(id))
	}
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		files["parameters/"+name] = value + "\n"
	}
	for name, content := range files {
		if err := write(filepath.Join(made, name), content); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(made, "holders/.keep")), n.bind(m)); err != nil {
		return err
	}
	if err := os.Rename(made, n.path("sys/module/"+m.Name)); err != nil {
		return err
	}
	return n.count()
}

// buildID is the file with the build ID of a loaded module.
const buildID = "notes/.note.gnu.build-id"

// note returns an ELF note with a build ID.
func note(id string) string {
	return "\x04\x00\x00\x00" + string(rune(len(id))) + "\x00\x00\x00\x03\x00\x00\x00GNU\x00" + id
}

// taint returns the flags of a module that is not a part of the kernel. "P" stands for a license that is not compatible
// with the kernel's.
func taint(license string) string {
	if strings.Contains(license, "GPL") {
		return "O\n"
	}
	return "PO\n"
}

// bind creates the files that the module nvidia shows in /proc.
func (n Node) bind(m *module.Module) error {
	if m.Name != "nvidia" {
		return nil
	}
	return errors.Join(
		write(n.path("proc/driver/nvidia/version"), "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "+m.Version+"  Release Build\n"),
		write(n.path("proc/driver/nvidia/params"), "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n"),
		write(n.path("proc/driver/nvidia/gpus/"+bus+"/information"), "Device Minor: \t 0\n"),
		write(n.path("proc/devices"), "Character devices:\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n511 nvidia-uvm\n\nBlock devices:\n"),
	)
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// count sets the reference count and the holders of the module nvidia.
func (n Node) count() error {
	core := n.path("sys/module/nvidia")
	if _, err := os.Stat(core); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	uses := 0
	if _, err := os.Stat(n.path("used")); err == nil {
		uses++
	}
	for _, name := range append([]string{"nvidia_uvm", "nvidia_modeset"}, optionalModules()...) {
		holder := filepath.Join(core, "holders", name)
		_, err := os.Stat(n.path("sys/module/" + name))
		if err != nil {
			_ = os.Remove(holder)
			continue
		}
		uses++
		if err := write(holder, ""); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(core, "refcnt"), fmt.Appendln(nil, uses), 0o600)
}

// Unload unloads a module like the kernel.
func (n Node) Unload(name string) error {
	n.notify("unload %s", name)
	dir := n.path("sys/module/" + name)
	uses, err := os.ReadFile(filepath.Join(dir, "refcnt"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cause.Cause{Code: cause.ModuleNotLoaded, Subject: "module " + name, Text: "it is not loaded"}
	case string(bytes.TrimSpace(uses)) != "0":
		return cause.Cause{Code: cause.ModuleInUse, Subject: "module " + name, Text: "it is in use"}
	}
	if name == "nvidia" {
		err = errors.Join(os.RemoveAll(n.path("proc/driver")), os.RemoveAll(n.path("proc/devices")))
	}
	gone := n.path("gone")
	return errors.Join(err, os.Rename(dir, gone), os.RemoveAll(gone), n.count())
}

// Open opens a device of the driver like the kernel.
func (n Node) Open(path string) error {
	n.notify("open %s", filepath.Base(path))
	version, err := os.ReadFile(n.path("sys/module/nvidia/version"))
	if err != nil || n.fileNames("muted", string(bytes.TrimSpace(version))) {
		return unix.EIO
	}
	_, err = os.Lstat(path)
	return err
}
