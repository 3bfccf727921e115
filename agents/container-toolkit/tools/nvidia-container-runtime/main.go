// Nvidia-container-runtime is an OCI runtime that gives containers the GPUs that they request,
// and then executes runc, crun or another low-level runtime. The names
// nvidia-container-runtime.cdi and nvidia-container-runtime.legacy select the mode.
package main

import (
	"os"
	"syscall"

	"outrigger.dev/agents/container-toolkit/internal/shim"
)

func main() { os.Exit(shim.Main(syscall.Exec)) }
