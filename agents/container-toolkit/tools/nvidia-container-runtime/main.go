// Nvidia-container-runtime is an OCI runtime that gives containers the GPUs that they ask
// for, and then becomes runc, crun or another low-level runtime. Under the names
// nvidia-container-runtime.cdi and nvidia-container-runtime.legacy it uses that mode.
package main

import (
	"os"
	"syscall"

	"outrigger.dev/agents/container-toolkit/internal/shim"
)

func main() { os.Exit(shim.Main(syscall.Exec)) }
