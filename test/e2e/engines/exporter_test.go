//go:build e2e

package engines_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestExporterInDocker runs the exporter as docs/dcgm-exporter.md says. The engine of the test
// publishes no ports, so that the container has the network of its machine.
func TestExporterInDocker(t *testing.T) {
	for name, options := range map[string][]string{
		"with the devices of the host": {"-v", "/:/driver-root:ro", "-v", "/dev:/dev", "--device-cgroup-rule=c 195:* rw"},
		"--gpus all":                   {"--gpus", "all"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newToolkitNode(t)
			e := newEngine(t, n)
			run := slices.Concat([]string{"run", "--detach", "--network=host", "--cap-drop=ALL"}, options)
			if !slices.Contains(options, "/:/driver-root:ro") {
				run = append(run, "-v", "/proc:/driver-root/proc:ro", "-v", "/sys:/driver-root/sys:ro")
			}
			id := e.must(append(append(run, kernel()...), e.image("dcgm-exporter"))...)
			scraped, err := e.scrapes()
			if err != nil {
				_, log, _ := e.try("logs", id)
				t.Fatalf("%v: %s\n%s", err, scraped, log)
			}
			e.must("stop", id)
		})
	}
}

// scrapes waits until the metrics of all GPUs are served on the machine.
func (e *engine) scrapes() (scraped string, err error) {
	const get = `exec 3<>/dev/tcp/127.0.0.1/9400 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	ctx := deadline(e.t)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		scraped, _, _ = try(e.t, nil, e.inside("bash", "-c", get)...) // until it serves
		if strings.Count(scraped, "\nDCGM_FI_DEV_GPU_TEMP{") == gpus {
			return scraped, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return scraped, ctx.Err()
		}
	}
}
