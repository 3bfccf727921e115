package nodeinit

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// handler serves the commands of the first process of a node:
//
//	GET  /components                     the status of all components
//	POST /components/NAME/start|stop     start or stop one
func handler(s *Supervisor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /components", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(s.Status()); err != nil {
			s.log.Warn("cannot send status", "err", err)
		}
	})
	act := func(do func(ctx context.Context, name string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.Context(), r.PathValue("name")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		}
	}
	mux.Handle("POST /components/{name}/start", act(func(_ context.Context, name string) error { return s.Start(name) }))
	mux.Handle("POST /components/{name}/stop", act(s.Stop))
	return mux
}

// serve accepts commands at the socket until ctx ends.
func serve(ctx context.Context, socket string, h http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve commands: %w", err)
	}
	return nil
}
