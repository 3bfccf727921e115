package cdihook

import (
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
)

const profileFile = "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"

// limitEGL writes an application profile for the driver's EGL. Without it, EGL opens each GPU of
// the host, and fails if the container must not open one of them.
func limitEGL(root *rootfs.Root) error {
	dev, err := root.Dir("/dev")
	if err != nil {
		return err
	}
	defer dev.Close()
	names, err := dev.Names(1 << 14)
	if err != nil {
		return err
	}
	var mask uint64
	for _, name := range names {
		number, ok := strings.CutPrefix(name, "nvidia")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		info, err := dev.Stat(name)
		if err != nil || info.Mode&fs.ModeCharDevice == 0 {
			continue
		}
		// The driver's mask has 64 bits.
		if minor := unix.Minor(info.Rdev); minor < 64 {
			mask |= 1 << minor
		}
	}
	if mask == 0 {
		return nil
	}
	text := fmt.Sprintf(`{"profiles":[{"name":"_container_","settings":["EGLVisibleDGPUDevices",0x%x]}],"rules":[{"pattern":[],"profile":"_container_"}]}`, mask)
	return root.WriteFile(profileFile, []byte(text), 0o444)
}
