// Command vectoradd adds two vectors on a GPU and checks every element. It is a minimal check that
// a container can compute on its GPU.
package main

import (
	"os"

	"outrigger.dev/samples/vectoradd/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}
