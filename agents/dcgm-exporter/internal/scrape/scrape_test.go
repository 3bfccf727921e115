package scrape_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/exporter"
	"outrigger.dev/agents/dcgm-exporter/internal/scrape"
)

// served are two families, one of which is a counter whose name does not say so.
func served() *exporter.Served {
	name, help := func(s string) *string { return &s }, func(s string) *string { return &s }
	counter, gauge, value := dto.MetricType_COUNTER, dto.MetricType_GAUGE, 7.0
	labels := []*dto.LabelPair{{Name: name("gpu"), Value: name("0")}, {Name: name("UUID"), Value: name("GPU-1")}}
	return &exporter.Served{
		Families: []*dto.MetricFamily{
			{Name: name("DCGM_FI_DEV_GPU_TEMP"), Help: help("t"), Type: &gauge, Metric: []*dto.Metric{{Label: labels, Gauge: &dto.Gauge{Value: &value}}}},
			{Name: name("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"), Help: help("r"), Type: &counter, Metric: []*dto.Metric{{Label: labels, Counter: &dto.Counter{Value: &value}}}},
			{Name: name("gpu_energy_joules_total"), Help: help("e"), Type: &counter, Metric: []*dto.Metric{{Label: labels, Counter: &dto.Counter{Value: &value}}}},
		},
		Read: []exporter.Read{{Labels: labels, At: time.Now().Add(-time.Minute)}},
	}
}

// get scrapes with headers, and returns the answer.
func get(t *testing.T, headers ...string) (body string, answer http.Header) {
	t.Helper()
	own := prometheus.NewRegistry()
	own.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "own", Help: "o"}, func() float64 { return 1 }))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	all := served()
	scrape.Handler(func() *exporter.Served { return all }, own, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := all.Families[1].GetType(); got != dto.MetricType_COUNTER {
		t.Errorf("a scrape has changed what is kept: %s", got)
	}
	return w.Body.String(), w.Header()
}

func has(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(body, line) {
			t.Errorf("no %q in\n%s", line, body)
		}
	}
}

func TestText(t *testing.T) {
	body, _ := get(t)
	has(t, body, `DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 7`, "# TYPE DCGM_FI_DEV_PCIE_REPLAY_COUNTER counter", "own 1",
		`exporter_sample_age_seconds{gpu="0",UUID="GPU-1"} 60.`)
}

// The names of metrics are the same in OpenMetrics, which Prometheus asks for.
func TestOpenMetrics(t *testing.T) {
	body, answer := get(t, "Accept", "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(answer.Get("Content-Type"), "application/openmetrics-text") {
		t.Errorf("Content-Type %s", answer.Get("Content-Type"))
	}
	has(t, body, "# TYPE DCGM_FI_DEV_PCIE_REPLAY_COUNTER unknown", `DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="GPU-1"} 7`,
		"# TYPE gpu_energy_joules counter", `gpu_energy_joules_total{gpu="0",UUID="GPU-1"} 7`, "# EOF")
	if strings.Contains(body, "COUNTER_total") {
		t.Error("a name was changed")
	}
}

func TestGzip(t *testing.T) {
	body, answer := get(t, "Accept-Encoding", "gzip")
	if answer.Get("Content-Encoding") != "gzip" {
		t.Fatalf("Content-Encoding %q", answer.Get("Content-Encoding"))
	}
	r, err := gzip.NewReader(strings.NewReader(body))
	assert.NilError(t, err)
	data, err := io.ReadAll(r)
	assert.NilError(t, err)
	has(t, string(data), "DCGM_FI_DEV_GPU_TEMP")
}

// gone is the answer to a client that has closed its connection.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func TestAClientThatHasGoneIsNoWarning(t *testing.T) {
	for _, accept := range []string{"text/plain", "application/openmetrics-text"} {
		var log bytes.Buffer
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("Accept", accept)
		h := scrape.Handler(served, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
		h.ServeHTTP(gone{httptest.NewRecorder()}, r)
		if log.Len() > 0 {
			t.Errorf("%s: it logs\n%s", accept, &log)
		}
	}
}
