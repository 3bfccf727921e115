package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/version"
)

func listenFlag(value string) cli.Flag {
	return &cli.StringFlag{
		Name: "listen", EnvVars: []string{"LISTEN_ADDRESS"}, Value: value,
		Usage: "`ADDRESS` of /healthz, /readyz and /metrics; empty serves none of them",
	}
}

// listenAddress reads --listen.
func listenAddress(c *cli.Context) (string, error) {
	addr := c.String("listen")
	if addr == "" {
		return "", nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", BadFlag("listen", addr, "host:port, :port, or empty for off")
	}
	return addr, nil
}

// listen opens the address. It returns nil where that is empty.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w: choose another address with --listen or LISTEN_ADDRESS (empty serves nothing)", addr, err)
	}
	return l, nil
}

// newHandler serves what the kubelet and Prometheus ask an agent for.
func newHandler(name string, a *Agent, log *slog.Logger) (http.Handler, error) {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outrigger_build_info",
		Help: "Always 1; the labels say which agent this is and how it was built.",
		ConstLabels: prometheus.Labels{
			"agent": name, "version": version.String(), "goversion": runtime.Version(),
		},
	})
	info.Set(1)
	for _, c := range append([]prometheus.Collector{
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, a.Collectors...) {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry: reg,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// What one collector cannot read must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, a.Health) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerReady(w, a.Ready) })
	return mux, nil
}

func answerHealth(w http.ResponseWriter, checks map[string]func() error) {
	code, body := http.StatusOK, ""
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](); err != nil {
			code = http.StatusServiceUnavailable
			body += name + ": " + oneLine(err) + "\n"
			continue
		}
		body += name + ": ok\n"
	}
	if code == http.StatusOK {
		body += "ok\n"
	}
	answer(w, code, body)
}

func answerReady(w http.ResponseWriter, ready func() error) {
	if ready != nil {
		if err := ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, oneLine(err)+"\n")
			return
		}
	}
	answer(w, http.StatusOK, "ok\n")
}

func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

// serve answers on l until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// A scrape under way may end; an idle or stuck peer may not hold us up.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}
