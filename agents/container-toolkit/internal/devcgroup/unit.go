package devcgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"outrigger.dev/pkg/text"
)

// systemd240 is the first version of systemd that accepts a path such as /dev/char/195:0 even if
// the file does not exist.
const systemd240 = 240

// Record adds the devices to the device list of the cgroup's unit, if the unit restricts devices.
// Without the record, systemd revokes the access that Allow has granted when systemd applies its
// lists again, for example on "systemctl daemon-reload". The record ends with the unit.
func (c Cgroup) Record(ctx context.Context, devices []Device) error {
	if c.Unit == "" || len(devices) == 0 {
		return nil
	}
	if err := c.record(ctx, devices); err != nil {
		return fmt.Errorf("record devices in %s of systemd: %w", c.Unit, err)
	}
	return nil
}

func (c Cgroup) record(ctx context.Context, devices []Device) error {
	shown, err := systemctl(ctx, "show", "--property=DevicePolicy,DeviceAllow,BPFProgram", "--", c.Unit)
	if err != nil {
		return err
	}
	if listed, err := restricted(shown); err != nil || !listed {
		return err
	}
	// Without --runtime, the property would also apply to the next unit of this name. The value is
	// added to the current list.
	args := []string{"set-property", "--runtime", "--", c.Unit}
	for _, d := range devices {
		path := fmt.Sprintf("/dev/char/%d:%d", d.Major, d.Minor)
		if _, err := os.Stat(path); err != nil {
			if err := checkVersion(ctx, path); err != nil {
				return err
			}
		}
		args = append(args, "DeviceAllow="+path+" rw")
	}
	_, err = systemctl(ctx, args...)
	return err
}

// restricted reports whether a unit with these properties has a device list. Record must not add
// devices to a unit without a list, because the first device would restrict the unit. Some
// container runtimes make such units, and restrict devices without systemd. For rules that systemd
// cannot express, runc makes a unit with DevicePolicy=strict and without devices.
func restricted(properties []byte) (bool, error) {
	policy, list := "auto", false
	for line := range strings.Lines(string(properties)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "DevicePolicy":
			policy = value
		case "DeviceAllow":
			list = list || value != ""
		case "BPFProgram":
			if strings.HasPrefix(value, "device:") {
				return false, fmt.Errorf("systemd attaches the container runtime's own program again, %s (use CDI, or runc)", text.Printable(value))
			}
		}
	}
	return list && policy != "auto", nil
}

// checkVersion returns an error if systemd is too old to identify a device by a path that does not
// exist.
func checkVersion(ctx context.Context, path string) error {
	shown, err := systemctl(ctx, "--version")
	if err != nil || since240(shown) {
		return err
	}
	return fmt.Errorf("systemd before %d needs the link %s (make it: nvidia-ctk system create-dev-char-symlinks)", systemd240, path)
}

// since240 parses the first line of "systemctl --version": "systemd 252 (252.38-1)".
func since240(shown []byte) bool {
	words := strings.Fields(string(shown))
	if len(words) < 2 {
		return false
	}
	n, err := strconv.Atoi(words[1])
	return err == nil && n >= systemd240
}

// systemctl runs the host's systemctl, and returns its output.
func systemctl(ctx context.Context, args ...string) ([]byte, error) {
	program := "/usr/bin/systemctl"
	if _, err := os.Stat(program); err != nil {
		program = "/bin/systemctl"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run systemctl %s: %w %s", args[0], errors.Join(err, ctx.Err()), text.Printable(strings.TrimSpace(problems.String())))
	}
	return out.Bytes(), nil
}

// unitOf returns the systemd scope that contains a cgroup, or "".
func unitOf(cgroup string) string {
	for dir := cgroup; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if isScope(dir) {
			// systemd puts "_" before a name that could be the name of a cgroup file.
			return strings.TrimPrefix(filepath.Base(dir), "_")
		}
	}
	return ""
}

func isScope(cgroup string) bool { return strings.HasSuffix(cgroup, ".scope") }
