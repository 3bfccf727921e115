package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

const (
	// neighbours is the number of peers, and connections the number of connections of each.
	neighbours, connections = 3, 60
	// pipelined is the number of requests that a neighbour sends in one write.
	pipelined = 100
	// shortLoad is the number of probes of each page without OUTRIGGER_LOAD.
	shortLoad = 5
	// probeLimit is timeoutSeconds of the chart's probes.
	probeLimit = time.Second
)

// TestProbesUnderLoad has three neighbours that send pipelined requests for metrics without a pause, and
// probes as the kubelet's. With OUTRIGGER_LOAD, a duration, it does so for this time, and each answer has
// to come in time. "make soak" runs it for 10 minutes. Without it, a probe may be repeated: this machine does other
// things too, and the exporter waits 2 s for a request.
func TestProbesUnderLoad(t *testing.T) {
	load, err := time.ParseDuration("0s" + os.Getenv("OUTRIGGER_LOAD"))
	assert.NilError(t, err)
	n := simtest.New(t, "--gpus=8", "--model=h100-80")
	p := start(t, n, "--probe-address=127.0.0.1:0")
	p.Said(`msg="serving probes"`)
	agenttest.Poll(t, "metrics", func() bool { return len(p.series("DCGM_FI_DEV_GPU_TEMP")) == 8 })
	addresses := regexp.MustCompile(`msg="?serving(?: probes)?"? address=(\S+)`).FindAllStringSubmatch(p.Log.String(), -1)
	probes, metrics := addresses[0][1], addresses[1][1]

	ctx, cancel := context.WithCancel(t.Context())
	var attacking sync.WaitGroup
	defer attacking.Wait()
	defer cancel()
	var served atomic.Int64 // bytes of answers
	for i := range neighbours {
		for range connections {
			attacking.Go(func() { pipeline(ctx, metrics, byte(2+i), &served) })
		}
	}
	// The exporter serves 16 connections at a time. The others wait, and are served as those end.
	agenttest.Poll(t, "answers", func() bool { return served.Load() > 1<<20 })

	var took []time.Duration
	for began := time.Now(); len(took) < 2*shortLoad || time.Since(began) < load; {
		for _, page := range []string{"healthz", "readyz"} {
			var last time.Duration
			agenttest.Poll(t, page, func() bool {
				last, err = probe(t, "http://"+probes+"/"+page)
				return err == nil || load > 0
			})
			assert.NilError(t, err)
			took = append(took, last)
		}
		if load > 0 {
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the load itself has no events
		}
	}
	slices.Sort(took)
	most := took[len(took)-1]
	t.Logf("%d probes beside %d MB of metrics for %d connections: median %s, 99 %% in %s, all in %s", len(took), served.Load()>>20,
		neighbours*connections, took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond), most.Round(time.Microsecond))
	if load > 0 && most > probeLimit {
		t.Errorf("the slowest probe took %s, which fails in the kubelet", most)
	}
}

// pipeline sends requests from 127.0.0.<host> without a pause until ctx ends, and counts the bytes of the
// answers. It connects again when the exporter ends the connection.
func pipeline(ctx context.Context, address string, host byte, served *atomic.Int64) {
	requests := strings.Repeat("GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n", pipelined)
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}).DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		var sending sync.WaitGroup
		sending.Go(func() {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(conn, requests)
			}
		})
		_, _ = io.Copy(counter{served}, conn) // the exporter may end the connection at any time
		_ = conn.Close()
		sending.Wait()
		stop()
	}
}

// counter counts bytes.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// probe requests a page over a new connection, as the kubelet does, and returns how long that takes.
func probe(t *testing.T, url string) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	req, err := http.NewRequestWithContext(agenttest.Deadline(t), http.MethodGet, url, nil)
	assert.NilError(t, err)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s, %v", url, resp.Status, err)
	}
	return time.Since(began), nil
}
