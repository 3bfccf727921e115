// Command images writes the container images of the project as OCI archives, without a registry and
// without a container engine, and pushes them to a registry.
package main

import (
	"os"

	"outrigger.dev/images/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}
