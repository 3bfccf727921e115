// Command generate writes the schemas of versions of Kubernetes, from its Go module, into
// testdata. Run it with: go generate ./schemas
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"outrigger.dev/test/e2e/schemas"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: generate VERSION…")
		os.Exit(2)
	}
	for _, version := range os.Args[1:] {
		if err := generate(version); err != nil {
			fmt.Fprintf(os.Stderr, "generate: Kubernetes %s: %v\n", version, err)
			os.Exit(1)
		}
	}
}

// generate writes the schemas of one version.
func generate(version string) error {
	dir, err := download(version)
	if err != nil {
		return err
	}
	swagger, err := os.ReadFile(filepath.Join(dir, "api/openapi-spec/swagger.json"))
	if err != nil {
		return fmt.Errorf("read OpenAPI document: %w", err)
	}
	definitions, err := schemas.Reduce(swagger)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := definitions.Pack(&packed); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("testdata", schemas.FileName(version)), packed.Bytes(), 0o644)
}

// download returns the folder of Kubernetes' module in Go's module cache.
func download(version string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output()
	var module struct{ Dir, Error string }
	if parse := json.Unmarshal(out, &module); parse != nil {
		return "", fmt.Errorf("download module: %w", errors.Join(err, parse))
	}
	if module.Error != "" {
		return "", fmt.Errorf("download module: %s", module.Error)
	}
	return module.Dir, nil
}
