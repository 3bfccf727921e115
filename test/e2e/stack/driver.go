package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DriverRegistry is the registry of the simulated driver images. NVIDIA's images are in
// nvcr.io/nvidia.
const DriverRegistry = "outrigger.dev/simulated"

// DriverTag is the tag of the image of a simulated driver.
func DriverTag(version string) string { return version + "-simulated" }

// LoadDriver imports the image of a simulated driver on all nodes. If fails is not zero, the
// driver's module nvidia fails with this error number.
func (s *Stack) LoadDriver(ctx context.Context, version string, fails int) error {
	dir, err := os.MkdirTemp("", "driver-")
	if err != nil {
		return fmt.Errorf("load driver image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root := filepath.Join(dir, "root")
	if _, err := s.Simulate(ctx, s.GPUNodes()[0], "image", "--driver-version", version, "--fails", strconv.Itoa(fails), root); err != nil {
		return err
	}
	return s.LoadRoot(ctx, DriverRegistry+"/driver:"+DriverTag(version), root)
}

// DriverLoader returns the release of the driver loader with the agent's image that was built here,
// and with the image of a simulated driver.
func (s *Stack) DriverLoader(version string, values ...string) (Release, error) {
	ref, err := s.image("driver-loader")
	if err != nil {
		return Release{}, err
	}
	name, tag, _ := strings.Cut(ref, ":")
	return Release{Chart: "driver-loader", Values: append([]string{
		"manager.repository=" + filepath.Dir(name), "manager.version=" + tag,
		"repository=" + DriverRegistry, "version=" + DriverTag(version),
	}, values...)}, nil
}
