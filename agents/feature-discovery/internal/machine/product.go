package machine

import (
	"fmt"
	"io"
	"os"
	"strings"
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
	product, err := readBounded(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(product)
}

// readBounded returns the content of a file of at most maxFile bytes.
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
		return "", fmt.Errorf("read %s: file has more than %d bytes", path, maxFile)
	}
	return string(data), nil
}
