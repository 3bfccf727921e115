package agent

import (
	"cmp"
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
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/version"
)

// HTTP changes what the server of --listen serves. Its zero value changes nothing.
type HTTP struct {
	// Metrics answers GET /metrics in place of the chassis, for an agent that has a
	// registry of its own. The chassis does not use Agent.Collectors then.
	Metrics http.Handler
	// Routes are more handlers, by patterns of http.ServeMux that do not conflict
	// with GET /healthz, GET /readyz and GET /metrics. Requests to Metrics and Routes
	// are limited: a client gets 429 for too many, and 503 if too many run for 8 s.
	Routes map[string]http.Handler
	// Connections is how many connections may be open; 0 for 64. For each additional one, the
	// oldest one of the peer with the most is closed, also if its request has not been answered.
	Connections int
	// Serve stands in for (*http.Server).Serve, for an agent that brings its own
	// authentication or TLS. It returns http.ErrServerClosed after Close. It does
	// not apply while App.New waits.
	Serve func(*http.Server, net.Listener) error
}

func listenFlag(value string, more ...string) cli.Flag {
	return &cli.StringFlag{
		Name: "listen", EnvVars: append([]string{"LISTEN_ADDRESS"}, more...), Value: value,
		Usage: "`ADDRESS` to serve /healthz, /readyz and /metrics on; if empty, the agent serves none of them",
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

// endpoint is where an agent serves HTTP.
type endpoint struct {
	// agent is the name of the agent.
	agent string
	// addr is empty if the agent serves no HTTP.
	addr string
	cert *certificate
	log  *slog.Logger
}

func newEndpoint(c *cli.Context, name string, log *slog.Logger) (endpoint, error) {
	addr, err := listenAddress(c)
	if err != nil {
		return endpoint{}, err
	}
	cert, err := newCertificate(c, log)
	return endpoint{agent: name, addr: addr, cert: cert, log: log}, err
}

// server returns the server of an agent, which listens already. It returns nil without
// an address.
func (e endpoint) server(ctx context.Context, a *Agent) (*server, error) {
	if e.addr == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	var config net.ListenConfig
	// To find out whether the kernel has it takes longer than to listen.
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, "tcp", e.addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w: set --listen or LISTEN_ADDRESS to another address, or to nothing to turn the server off", e.addr, err)
	}
	e.log.Info("serving", "address", l.Addr().String())
	l = e.cert.listener(&limitedListener{Listener: l, most: cmp.Or(a.HTTP.Connections, maxConnections), log: e.log})
	handler := func() (http.Handler, error) { return newHandler(e.agent, a, e.log) }
	return &server{listener: l, handler: handler, serve: a.HTTP.Serve, log: e.log}, nil
}

// newHandler returns the handler for the probes of the kubelet and for Prometheus.
func newHandler(name string, a *Agent, log *slog.Logger) (http.Handler, error) {
	metrics := a.HTTP.Metrics
	if metrics == nil {
		var err error
		if metrics, err = newMetrics(name, a.collectors(), log); err != nil {
			return nil, err
		}
	}
	limit := newRequestLimit()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", limit.handler(metrics))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, a.health()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerReady(w, a.ready()) })
	for pattern, handler := range a.HTTP.Routes {
		mux.Handle(pattern, limit.handler(handler))
	}
	return mux, nil
}

// ProcessCollectors returns the collectors of build info, Go and process, for an agent with a
// registry of its own.
func ProcessCollectors(name string) []prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outrigger_build_info",
		Help: "Always 1; the labels say which agent this is and how it was built.",
		ConstLabels: prometheus.Labels{
			"agent": name, "version": version.String(), "goversion": runtime.Version(),
		},
	})
	info.Set(1)
	return []prometheus.Collector{
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}

// newMetrics returns the handler of /metrics for collectors, build info, Go and
// process.
func newMetrics(name string, own []prometheus.Collector, log *slog.Logger) (http.Handler, error) {
	reg := prometheus.NewRegistry()
	for _, c := range slices.Concat(ProcessCollectors(name), own) {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry: reg,
		ErrorLog: slog.NewLogLogger(ServerLog(log), slog.LevelWarn),
		// A collector that fails must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
	}), nil
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

func answerReady(w http.ResponseWriter, err error) {
	if err != nil {
		answer(w, http.StatusServiceUnavailable, oneLine(err)+"\n")
		return
	}
	answer(w, http.StatusOK, "ok\n")
}

func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

// ServerLog returns the handler for what an HTTP server, or a handler of metrics, logs through
// slog.NewLogLogger. What anyone who reaches the port can cause, without end, has the level debug
// there: handshakes that fail, and answers that a client does not read.
func ServerLog(to *slog.Logger) slog.Handler { return serverLog{to.Handler()} }

type serverLog struct{ slog.Handler }

func (h serverLog) Handle(ctx context.Context, r slog.Record) error {
	if byClient(r.Message) {
		r.Level = slog.LevelDebug
	}
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// byClient says whether net/http or promhttp logs what a client has done.
func byClient(message string) bool {
	if unsent, ok := strings.CutPrefix(message, "error encoding and sending metric family: "); ok {
		return strings.HasPrefix(unsent, "write tcp") || strings.HasPrefix(unsent, "http2: ") || unsent == "client disconnected"
	}
	return strings.HasPrefix(message, "http: TLS handshake error")
}

// server is the HTTP server of an agent, ready to serve.
type server struct {
	listener net.Listener
	// handler makes the handler.
	handler func() (http.Handler, error)
	// serve is HTTP.Serve, or nil.
	serve func(*http.Server, net.Listener) error
	log   *slog.Logger
}

// serveAfter is the time from the start of an agent until its server makes the handler.
const serveAfter = 50 * time.Millisecond

// run serves until ctx ends.
func (s *server) run(ctx context.Context) error {
	// The agent starts at the same time, and the collectors take a while. Who connects now is
	// answered then.
	if !pace.Pause(ctx, serveAfter) {
		return s.listener.Close()
	}
	handler, err := s.handler()
	if err != nil {
		return errors.Join(err, s.listener.Close())
	}
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          slog.NewLogLogger(ServerLog(s.log), slog.LevelWarn),
	}
	requests := track(srv)
	serve := s.serve
	if serve == nil {
		serve = (*http.Server).Serve
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// A scrape in progress may finish; an idle or stuck peer must not delay the exit.
		requests.wait(500 * time.Millisecond)
		_ = srv.Close()
	})
	err = serve(srv, s.listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", s.listener.Addr(), err)
}
