// Command demo shows the whole path on one machine: a real Kubernetes, a node
// with simulated GPUs, the agents installed by their charts, and a pod
// that asks for one GPU and adds two vectors on it. The cluster stays up.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: demo\n\nShows a GPU pod on a real Kubernetes with simulated GPUs. It takes no arguments.")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\nStart afresh:  make demo-down && make demo\n", err)
		stop()
		os.Exit(1)
	}
}
