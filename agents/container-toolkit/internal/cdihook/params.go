package cdihook

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/hostfs"
)

const (
	paramsFile = "/proc/driver/nvidia/params"
	maxParams  = 64 << 10
)

// keepDevices tells the driver's programs not to create device nodes. It mounts a changed copy of
// the driver's parameters into the container. hostFile has the host's parameters. The copy is on a
// private tmpfs, so that the image cannot interfere.
func keepDevices(root *rootfs.Root, hostFile string, warn func(string)) error {
	data, err := hostfs.ReadFile(hostFile, maxParams)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	changed := WithoutModification(string(data))
	if changed == string(data) || !root.Has(paramsFile) {
		return nil
	}
	err = mountParams(root, changed)
	if errors.Is(err, unix.ENOSYS) {
		warn("cannot hide the setting ModifyDeviceFiles of the driver, so programs in the container may create device nodes of GPUs: " + err.Error())
		return nil
	}
	return err
}

// WithoutModification returns the content of /proc/driver/nvidia/params with ModifyDeviceFiles set
// to 0, so that the driver's programs do not make or change device nodes.
func WithoutModification(params string) string {
	const key = "ModifyDeviceFiles: "
	lines := strings.SplitAfter(params, "\n")
	for i, line := range lines {
		if strings.TrimRight(line, "\n") == key+"1" {
			lines[i] = strings.Replace(line, key+"1", key+"0", 1)
		}
	}
	return strings.Join(lines, "")
}

// mountParams mounts a file with the content. The kernel only clones files of mounted file systems,
// so the tmpfs is temporarily mounted on the folder of the file.
func mountParams(root *rootfs.Root, content string) (err error) {
	if err := root.Private("/proc"); err != nil {
		return err
	}
	tmpfs, files, err := rootfs.NewTmpfs(maxParams, 0o555)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close(), tmpfs.Close()) }()
	if err := files.WriteFile("params", []byte(content), 0o444); err != nil {
		return err
	}
	if err := root.Mount(path.Dir(paramsFile), tmpfs); err != nil {
		return err
	}
	source, err := files.OpenFile("params")
	if err != nil {
		return errors.Join(err, tmpfs.Unmount())
	}
	defer source.Close()
	file, err := rootfs.Clone(source, rootfs.Attributes{ReadOnly: true, NoSuid: true, NoDev: true, NoExec: true})
	if err = errors.Join(err, tmpfs.Unmount()); err != nil {
		return err
	}
	defer file.Close()
	if err := root.Mount(paramsFile, file); err != nil {
		return fmt.Errorf("hide the setting ModifyDeviceFiles of the driver: %w", err)
	}
	return nil
}
