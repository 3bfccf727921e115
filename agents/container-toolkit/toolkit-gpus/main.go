// Toolkit-gpus reads the GPUs of the node through NVML and prints them as JSON, for the
// static programs of the container toolkit. It is a separate process, so that a crash or a
// hang of the driver's library does not affect those programs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"outrigger.dev/agents/container-toolkit/internal/gpus/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := program.Main(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
