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
)

// gone is the answer to a client that has closed its connection.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func TestAScrapeOfAClientThatHasGoneIsNoWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		level slog.Level
		want  int
	}{
		"nothing at the level info":         {slog.LevelInfo, 0},
		"each metric family at level debug": {slog.LevelDebug, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h, err := newMetrics("a", nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: tc.level})))
			if err != nil {
				t.Fatal(err)
			}
			h.ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			if got := strings.Count(log.String(), "level="); got < tc.want || tc.want == 0 && got > 0 {
				t.Errorf("%d lines:\n%s", got, &log)
			}
		})
	}
}

func TestACollectorThatFailsIsAWarning(t *testing.T) {
	var log bytes.Buffer
	broken := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "b", Help: "h"}, func() float64 { return 0 })
	h, err := newMetrics("a", []prometheus.Collector{failing{broken}}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
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
