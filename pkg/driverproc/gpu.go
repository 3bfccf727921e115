package driverproc

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// NoMinor is the Minor of a GPU whose minor the driver does not report.
const NoMinor = -1

// GPU holds the properties of a GPU that the kernel driver reports without NVML.
type GPU struct {
	// BusID as sysfs writes it: "0000:17:00.0".
	BusID string
	// UUID is empty until the GPU is initialized for the first time.
	UUID gpu.UUID
	Name string
	// Minor is the number in /dev/nvidia<Minor>, or NoMinor.
	Minor int
}

var busID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
})

// BusIDs returns the bus IDs of the GPUs that are bound to the driver, in the order of the bus, or
// none if no driver is loaded. It reads a folder and no file.
func (r Root) BusIDs() []string {
	ids := slices.DeleteFunc(listNames(r.path("driver/nvidia/gpus")), func(name string) bool { return !busID().MatchString(name) })
	slices.Sort(ids)
	return ids
}

// GPU reads /proc/driver/nvidia/gpus/<id>/information. It leaves out values that are missing in the
// file, or have a form that the driver does not write.
func (r Root) GPU(id string) (GPU, error) {
	g := GPU{BusID: id, Minor: NoMinor}
	if !busID().MatchString(id) {
		return g, fmt.Errorf("read gpu information: %q is not a bus ID like 0000:17:00.0", id)
	}
	data, err := read(r.path("driver/nvidia/gpus", id, "information"), maxText)
	if err != nil {
		return g, fmt.Errorf("read gpu information: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		g.set(key, strings.TrimSpace(value))
	}
	return g, nil
}

func (g *GPU) set(key, value string) {
	switch key {
	case "Model":
		g.Name = text.Printable(value)
	case "GPU UUID":
		// Before the first initialization, the UUID consists of question marks.
		if id := gpu.UUID(value); id.Valid() {
			g.UUID = id
		}
	case "Device Minor":
		if minor, err := strconv.Atoi(value); err == nil && minor >= 0 {
			g.Minor = minor
		}
	}
}
