package agent

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"gotest.tools/v3/assert"
)

// gone is the answer to a client that has closed its connection.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func TestAScrapeOfAClientThatHasGoneIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	reg, err := newRegistry(processCollectors("a"))
	assert.NilError(t, err)
	h := MetricsHandler(reg, promhttp.HandlerOpts{}, slog.New(slog.NewTextHandler(&log, nil)))
	h.ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if log.Len() > 0 {
		t.Errorf("it logs\n%s", &log)
	}
}

func TestWhatAClientCausesIsNoWarning(t *testing.T) {
	for message, want := range map[string]string{
		"http: TLS handshake error from 192.0.2.1:1: EOF":                              "DEBUG",
		"http2: server: error reading preface from client 192.0.2.1:1: bogus greeting": "DEBUG",
		"http: panic serving 192.0.2.1:1: no map\ngoroutine 7":                         "WARN",
		"http: Accept error: too many open files; retrying in 5ms":                     "WARN",
	} {
		var log bytes.Buffer
		to := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
		slog.NewLogLogger(serverLog{to}, slog.LevelWarn).Print(message)
		if !strings.Contains(log.String(), "level="+want+" ") {
			t.Errorf("%q is logged as %s", message, &log)
		}
	}
}

func TestACollectorThatFailsIsAWarning(t *testing.T) {
	var log bytes.Buffer
	broken := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "b", Help: "h"}, func() float64 { return 0 })
	reg, err := newRegistry([]prometheus.Collector{failing{broken}})
	assert.NilError(t, err)
	h := MetricsHandler(reg, promhttp.HandlerOpts{}, slog.New(slog.NewTextHandler(&log, nil)))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "no sensor") {
		t.Errorf("%q", log.String())
	}
}

// failing is a collector that cannot read what it exports.
type failing struct{ prometheus.GaugeFunc }

func (f failing) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.NewInvalidMetric(f.Desc(), os.NewSyscallError("no sensor", syscall.EIO))
}
