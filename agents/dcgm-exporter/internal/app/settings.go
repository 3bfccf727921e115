package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/agent"
)

// settings is what flags and environment set.
type settings struct {
	host     agent.Host
	options  exposition.Options
	interval time.Duration
	name     string
	list     list
}

// The bounds of --collect-interval: GPM needs 100 ms between two readings.
const (
	shortest = 200 * time.Millisecond
	longest  = time.Hour
)

func read(c *cli.Context, log *slog.Logger) (settings, error) {
	s := settings{interval: milliseconds(c, "collect-interval")}
	host, hostErr := agent.HostOf(c)
	s.host = host
	source, sourceErr := agent.GPUSource(c)
	if source != "" {
		sourceErr = agent.BadFlag("gpu-source", c.String("gpu-source"), "nvml: a snapshot has no values that change")
	}
	if s.interval < shortest || s.interval > longest {
		hostErr = errors.Join(hostErr, agent.BadFlag("collect-interval", c.String("collect-interval"), "200 to 3600000"))
	}
	err := errors.Join(hostErr, sourceErr, s.readOptions(c))
	if err != nil {
		return settings{}, err
	}
	if s.name = c.String("node-name"); s.name == "" {
		if s.name, err = os.Hostname(); err != nil {
			return settings{}, fmt.Errorf("read the name of this machine: %w: set NODE_NAME", err)
		}
	}
	if s.list, err = openList(c, log); err != nil {
		return settings{}, err
	}
	s.options.Metrics, err = s.list.read(c.Context)
	return s, err
}

func milliseconds(c *cli.Context, flag string) time.Duration {
	return time.Duration(c.Int(flag)) * time.Millisecond
}

func (s *settings) readOptions(c *cli.Context) error {
	o := exposition.Options{
		OldNamespace:  c.Bool("use-old-namespace"),
		ReplaceBlanks: c.Bool("replace-blanks-in-model-name"),
		VirtualGPUs:   c.Bool("kubernetes-virtual-gpus"),
		XIDWindow:     milliseconds(c, "xid-count-window-size"),
		ClockWindow:   milliseconds(c, "clock-events-count-window-size"),
	}
	var errs []error
	names, err := agent.Choice(c, "metric-names", string(exposition.Spelled), string(exposition.DCGM47), string(exposition.Both))
	errs = append(errs, err)
	o.Names = exposition.Names(names)
	hostname, err := agent.Choice(c, "hostname-label", "Hostname", "hostname", "both")
	errs = append(errs, err)
	o.Hostname = []string{hostname}
	if hostname == "both" {
		o.Hostname = []string{"Hostname", "hostname"}
	}
	mig, err := agent.Choice(c, "mig-gpu-metrics", "duplicate", "dedupe")
	errs = append(errs, err)
	o.Dedupe = mig == "dedupe"
	for _, flag := range []string{"xid-count-window-size", "clock-events-count-window-size"} {
		if c.Int(flag) <= 0 {
			errs = append(errs, agent.BadFlag(flag, c.String(flag), "a number above 0"))
		}
	}
	if o.Devices, err = devices(c.String("devices")); err != nil {
		errs = append(errs, agent.BadFlag("devices", c.String("devices"), "f, g[:LIST] or i[:LIST], where LIST is for example 0,2-3"))
	}
	s.options = o
	return errors.Join(errs...)
}

// devices parses a selection of devices.
func devices(text string) (exposition.Selector, error) {
	var s exposition.Selector
	for part := range strings.SplitSeq(text, "+") {
		kind, list, has := strings.Cut(strings.TrimSpace(part), ":")
		numbers := []int{}
		if has {
			var err error
			if numbers, err = ranges(list); err != nil {
				return s, err
			}
		}
		switch {
		case kind == "f" && !has:
			s.Flexible = true
		case kind == "g":
			s.GPUs = numbers
		case kind == "i":
			s.Instances = numbers
		default:
			return s, errors.New("neither f, g nor i")
		}
	}
	return s, nil
}

// mostDevices bounds a range.
const mostDevices = 1024

// ranges parses a list of numbers and ranges: "0,2-3".
func ranges(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil {
			return nil, err
		}
		to, err := strconv.Atoi(strings.TrimSpace(last))
		if err != nil {
			return nil, err
		}
		if from < 0 || to < from || to >= mostDevices {
			return nil, errors.New("bad range")
		}
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}
