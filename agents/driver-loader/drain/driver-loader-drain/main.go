// Driver-loader-drain evicts the pods of a node that hold GPUs, so that the driver loader can
// change the driver. It is a program of its own because it links client-go.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2" //nolint:depguard // client-go logs there, and gets our log

	"outrigger.dev/agents/driver-loader/drain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)).With("library", "client-go"))
	os.Exit(drain.Main(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)) //nolint:gocritic // the process ends
}
