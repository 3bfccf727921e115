package machine

import (
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// maxFile is the limit of the files that this package reads, in bytes.
const maxFile = 64 << 10

// ReadProduct returns the machine's model from the file at path, usually
// class/dmi/id/product_name in sysfs. It returns "" if path is empty or cannot be
// read, because many machines have no DMI.
func ReadProduct(path string) string {
	if path == "" {
		return ""
	}
	product, err := hostfs.ReadFile(path, maxFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(product))
}
