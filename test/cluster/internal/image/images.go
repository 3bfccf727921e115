package image

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// The names of the cluster's own images.
const (
	PauseName   = "outrigger.dev/pause:1"
	BusyboxName = "outrigger.dev/busybox:1"
)

// Pause returns the image of pod sandboxes.
func Pause(componentDir string) Image {
	return Image{Name: PauseName, Program: filepath.Join(componentDir, "pause"), Path: "/pause", Entrypoint: []string{"/pause"}}
}

// Busybox returns the image that tests use for shells and small servers. The program is Debian's
// static busybox.
func Busybox(ctx context.Context, program string) (Image, error) {
	out, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list applets of %s: %w", program, err)
	}
	i := Image{Name: BusyboxName, Program: program, Path: "/bin/busybox"}
	for applet := range strings.FieldsSeq(string(out)) {
		if applet != "busybox" {
			i.Links = append(i.Links, applet)
		}
	}
	return i, nil
}
