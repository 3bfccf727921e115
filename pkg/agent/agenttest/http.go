package agenttest

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"outrigger.dev/pkg/pace"
)

// Get returns the body of the answer of the agent's HTTP server, whose address is in the log. For
// /metrics, it checks that the documentation of the agent names each metric.
func (p *Process) Get(path string) string {
	p.t.Helper()
	_, body := p.Ask(path)
	if path == "/metrics" {
		p.documentedMetrics(body)
	}
	return body
}

// Ask is Get with the status code. It retries while the agent rejects requests because the test
// sends too many.
func (p *Process) Ask(path string) (status int, body string) {
	p.t.Helper()
	for {
		if status, body = p.ask(path); status != http.StatusTooManyRequests {
			return status, body
		}
		if !pace.Pause(p.t.Context(), 100*time.Millisecond) {
			p.t.Fatal(p.t.Context().Err())
		}
	}
}

func (p *Process) ask(path string) (status int, body string) {
	p.t.Helper()
	p.Said("msg=serving")
	// An agent that waited at its start has served before, perhaps on another port.
	served := regexp.MustCompile(`msg=serving address=(\S+)`).FindAllStringSubmatch(p.Log.String(), -1)
	address := served[len(served)-1][1]
	req, err := http.NewRequestWithContext(Deadline(p.t), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	// An idle connection would leak a goroutine.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// Gauge returns the value of a metric without labels that is a whole number.
func (p *Process) Gauge(name string) int {
	p.t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(p.Get("/metrics"))
	if found == nil {
		p.t.Fatalf("/metrics lacks %s", name)
	}
	v, err := strconv.Atoi(found[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// Falls waits until the value of a metric is at most the given value.
func (p *Process) Falls(name string, most int) {
	p.t.Helper()
	Poll(p.t, name+" to be "+strconv.Itoa(most), func() bool { return p.Gauge(name) <= most })
}
