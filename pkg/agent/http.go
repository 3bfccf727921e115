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
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"outrigger.dev/pkg/text"
)

// HTTP changes the content of the server of --listen. Its zero value changes nothing.
type HTTP struct {
	// Metrics returns the handler of GET /metrics, for an agent that serves additional metrics. Its
	// parameter own gathers the collectors of the agent's parts and of package agent.
	Metrics func(own prometheus.Gatherer) http.Handler
	// Routes are additional handlers, by patterns of http.ServeMux. The patterns must not conflict
	// with GET /healthz, GET /readyz and GET /metrics.
	Routes map[string]http.Handler
	// Serve replaces (*http.Server).Serve, for an agent with custom authentication or TLS. It
	// returns http.ErrServerClosed after Close. It is not used for --probe-address, nor while
	// App.New waits.
	Serve func(*http.Server, net.Listener) error
}

// maxConnections is the number of simultaneous connections of each address. More clients wait until
// a connection ends. A node has few clients: the kubelet, and some that read /metrics.
const maxConnections = 16

// endpoint describes where an agent serves HTTP.
type endpoint struct {
	// agent is the name of the agent.
	agent string
	// addr and probes are the addresses of the flags.
	addr, probes string
	cert         *certificate
	// loops counts the steps of all loops of the agent.
	loops *loopMetrics
	log   *slog.Logger
}

// server returns the server of an agent, which already listens on all addresses of the endpoint. An
// agent with Once set does not listen.
func (e endpoint) server(ctx context.Context, a *Agent) (*server, error) {
	s := &server{}
	if a.Once {
		return s, nil
	}
	if e.probes != "" {
		l, err := listen(ctx, e.probes, "--probe-address or PROBE_ADDRESS")
		if err != nil {
			return nil, err
		}
		e.log.Info("serving probes", "address", l.Addr().String())
		s.add(l, probeServer(a, e.log), nil)
	}
	if e.addr != "" {
		handler, err := e.handler(a)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		l, err := listen(ctx, e.addr, "--listen or LISTEN_ADDRESS")
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		e.log.Info("serving", "address", l.Addr().String())
		s.add(e.cert.listener(l), metricsServer(handler, e.log), a.HTTP.Serve)
	}
	return s, nil
}

func listen(ctx context.Context, addr, setting string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w: set %s to another address, or to nothing to turn the server off", addr, err, setting)
	}
	return netutil.LimitListener(l, maxConnections), nil
}

// handler returns the handler of --listen, for Prometheus and for probes.
func (e endpoint) handler(a *Agent) (http.Handler, error) {
	own, err := newRegistry(slices.Concat(processCollectors(e.agent), e.loops.collectors(), a.collectors()))
	if err != nil {
		return nil, err
	}
	metrics := MetricsHandler(own, promhttp.HandlerOpts{Registry: own}, e.log)
	if a.HTTP.Metrics != nil {
		metrics = a.HTTP.Metrics(own)
	}
	mux := newProbes(a)
	mux.Handle("GET /metrics", metrics)
	for pattern, handler := range a.HTTP.Routes {
		mux.Handle(pattern, handler)
	}
	return mux, nil
}

// newProbes returns the handler for the probes of the kubelet.
func newProbes(a *Agent) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, a.health()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerReady(w, a.ready()) })
	return mux
}

func answerHealth(w http.ResponseWriter, checks map[string]func() error) {
	code, body := http.StatusOK, ""
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](); err != nil {
			code = http.StatusServiceUnavailable
			body += name + ": " + text.OneLine(err) + "\n"
			continue
		}
		body += name + ": ok\n"
	}
	if code == http.StatusOK {
		body += "ok\n"
	}
	writeAnswer(w, code, body)
}

func answerReady(w http.ResponseWriter, err error) {
	if err != nil {
		writeAnswer(w, http.StatusServiceUnavailable, text.OneLine(err)+"\n")
		return
	}
	writeAnswer(w, http.StatusOK, "ok\n")
}

func writeAnswer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}
