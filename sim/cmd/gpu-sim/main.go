// Command gpu-sim makes, changes and enters simulated GPU nodes. Under the name
// of one of the driver's programs, as in the driver root that it makes, it
// plays that program.
package main

import (
	"fmt"
	"os"

	"outrigger.dev/sim/internal/app"
)

func main() {
	if err := app.Run(os.Args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-sim:", err)
		os.Exit(1)
	}
}
