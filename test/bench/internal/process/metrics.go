package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"outrigger.dev/pkg/pace"
)

// metrics returns the content of the agent's /metrics.
func (p *Process) metrics(ctx context.Context) (string, error) {
	for {
		body, status, err := p.fetch(ctx, "/metrics")
		if err != nil || status != http.StatusTooManyRequests {
			return body, err
		}
		if !pace.Pause(ctx, 10*time.Millisecond) { // the agent limits the rate of requests
			return "", context.Cause(ctx)
		}
	}
}

// fetch requests a page of the agent once.
func (p *Process) fetch(ctx context.Context, page string) (body string, status int, err error) {
	data, err := os.ReadFile(p.cfg.Log)
	if err != nil {
		return "", 0, err
	}
	at := address(data)
	if at == "" {
		return "", 0, fmt.Errorf("find the address of %s: its log has none:\n%s", p.name(), p.Tail())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+page, nil)
	if err != nil {
		return "", 0, err
	}
	// An open connection would cost the agent goroutines and memory.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	content, err := io.ReadAll(resp.Body)
	return string(content), resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// Scrape requests /metrics as Prometheus does, and returns the duration of the request and the size
// of the response in bytes.
func (p *Process) Scrape(ctx context.Context) (took time.Duration, size int, err error) {
	for {
		began := time.Now()
		text, status, err := p.fetch(ctx, "/metrics")
		if err != nil || status == http.StatusOK {
			return time.Since(began), len(text), err
		}
		if status != http.StatusTooManyRequests {
			return 0, 0, fmt.Errorf("scrape %s: status %d", p.name(), status)
		}
		if !pace.Pause(ctx, 10*time.Millisecond) { // the agent limits the rate of requests
			return 0, 0, context.Cause(ctx)
		}
	}
}

// Serving waits until the agent serves /metrics.
func (p *Process) Serving(ctx context.Context) error {
	ctx, cancel := Limited(ctx)
	defer cancel()
	for {
		data, err := os.ReadFile(p.cfg.Log)
		if err != nil {
			return err
		}
		if address(data) != "" {
			return nil
		}
		if !pace.Pause(ctx, time.Millisecond) {
			return fmt.Errorf("wait until %s serves /metrics: %w:\n%s", p.name(), context.Cause(ctx), p.Tail())
		}
	}
}

// address returns the address that an agent serves at, according to its log, or "".
func address(log []byte) string {
	found := regexp.MustCompile(`msg=serving address=(\S+)`).FindSubmatch(log)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// Metric waits until /metrics has a line that matches the pattern.
func (p *Process) Metric(ctx context.Context, pattern string) error {
	ctx, cancel := Limited(ctx)
	defer cancel()
	want := regexp.MustCompile(pattern)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		text, err := p.metrics(ctx)
		if err != nil {
			return err
		}
		if want.MatchString(text) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s in /metrics: %w", pattern, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Gauges are the numbers of goroutines and open files of a process.
type Gauges struct{ Goroutines, Files int }

// Gauges returns the values that the agent reports.
func (p *Process) Gauges(ctx context.Context) (g Gauges, err error) {
	text, err := p.metrics(ctx)
	if err != nil {
		return g, err
	}
	for name, to := range map[string]*int{"go_goroutines": &g.Goroutines, "process_open_fds": &g.Files} {
		value, err := valueOf(text, name)
		if err != nil {
			return g, err
		}
		*to = int(value)
	}
	return g, nil
}

// Values returns the values of metrics without labels.
func (p *Process) Values(ctx context.Context, names ...string) ([]float64, error) {
	text, err := p.metrics(ctx)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(names))
	for i, name := range names {
		if values[i], err = valueOf(text, name); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// valueOf returns the value of a metric without labels in the text of /metrics.
func valueOf(text, name string) (float64, error) {
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("read /metrics: %s is missing", name)
	}
	return strconv.ParseFloat(found[1], 64)
}

// Settle waits until the agent has no more goroutines and files than before. It returns
// the last values, and an error if they are still larger.
func (p *Process) Settle(ctx context.Context, before Gauges) (Gauges, error) {
	ctx, cancel := Limited(ctx)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last Gauges
	for {
		now, err := p.Gauges(ctx)
		switch {
		case err == nil && now.Goroutines <= before.Goroutines && now.Files <= before.Files:
			return now, nil
		case err == nil:
			last = now
		case ctx.Err() == nil:
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("compare gauges: %d goroutines and %d open files, %d and %d before",
				last.Goroutines, last.Files, before.Goroutines, before.Files)
		case <-tick.C:
		}
	}
}
