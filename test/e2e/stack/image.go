package stack

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// image returns the name and tag in the manifest.json of a component's image archive (the format of
// "docker save").
func (s *Stack) image(component string) (string, error) {
	path := filepath.Join(s.root, "out", "images", component+".tar")
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("find the image of %s: %w; run: make images", component, err)
	}
	defer f.Close()
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read %s: it has no manifest.json; run: make images", path)
		}
		if err != nil {
			return "", fmt.Errorf("read %s: %w", path, err)
		}
		if header.Name != "manifest.json" {
			continue
		}
		var manifest []struct{ RepoTags []string }
		if err := json.NewDecoder(archive).Decode(&manifest); err != nil {
			return "", fmt.Errorf("read manifest.json of %s: %w", path, err)
		}
		if len(manifest) != 1 || len(manifest[0].RepoTags) == 0 {
			return "", fmt.Errorf("read %s: it does not hold exactly one named image", path)
		}
		return manifest[0].RepoTags[0], nil
	}
}
