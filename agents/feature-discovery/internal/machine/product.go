package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// maxFile is the limit of the files that this package reads, in bytes.
const maxFile = 64 << 10

// dmi is the file in sysfs with the model of a machine. Many machines have no DMI.
const dmi = "class/dmi/id/product_name"

// ReadProduct returns the machine's model from the file at path, usually the DMI file in sysfs.
// It returns "" if path is empty, or if path is the DMI file and does not exist.
func ReadProduct(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	product, err := hostfs.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, "/"+dmi) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read machine type: %w", err)
	}
	return strings.TrimSpace(string(product)), nil
}
