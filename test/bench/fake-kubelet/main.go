// Command fake-kubelet calls one device plugin as the kubelet does, and prints its
// answers, one fact per line, for scripts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"outrigger.dev/pkg/cmdline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := cmdline.Exec(ctx, app(), os.Args)
	stop()
	os.Exit(code)
}
