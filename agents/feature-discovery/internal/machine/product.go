package machine

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFile is more than any of the files here has.
const maxFile = 64 << 10

// ReadProduct returns the machine's model, which the file at path holds: as a
// rule that of DMI, class/dmi/id/product_name in sysfs. It is "" if path is
// empty or cannot be read: many machines have no DMI.
func ReadProduct(path string) string {
	if path == "" {
		return ""
	}
	product, err := readBounded(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(product)
}

// readBounded reads a small file.
func readBounded(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("read %s: it has more than %d bytes", path, maxFile)
	}
	return string(data), nil
}
