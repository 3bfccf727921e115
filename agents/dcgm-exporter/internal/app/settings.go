package app

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cmdline"
)

// settings holds the values of flags and environment variables.
type settings struct {
	host    agent.Host
	cluster cluster.Settings
	options exposition.Options
	// name is the name of the Node, or the host name if the Node is unknown.
	name string

	// The fields below are parsed into the options.
	devices, hostname, mig string
	xidWindow, clockWindow int

	// interval is in milliseconds.
	interval             int
	collectors           string
	configMap            string
	strict               bool
	kernelLog, webConfig string

	kubernetes, podLabels, podUID   bool
	kubeletSocket, podLogs, jobsDir string
	resources, podLabelAllow        []string
}

// complete sets the fields that depend on several flags or on the node.
func (s *settings) complete() (err error) {
	if s.host.Snapshot != "" {
		return cmdline.Usagef("flag --gpu-source: invalid value %q: must be nvml: a snapshot has no values that change", "file:"+s.host.Snapshot)
	}
	o := &s.options
	o.Hostname = []string{s.hostname}
	if s.hostname == "both" {
		o.Hostname = []string{"Hostname", "hostname"}
	}
	o.Dedupe = s.mig == "dedupe"
	o.XIDWindow, o.ClockWindow = milliseconds(s.xidWindow), milliseconds(s.clockWindow)
	if o.Devices, err = parseDevices(s.devices); err != nil {
		return err
	}
	if s.name = s.cluster.NodeName; s.name == "" {
		if s.name, err = os.Hostname(); err != nil {
			return fmt.Errorf("read the name of this machine: %w: set NODE_NAME", err)
		}
	}
	return nil
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// parseDevices parses a selection of devices: the value of --devices.
func parseDevices(text string) (exposition.Selector, error) {
	var s exposition.Selector
	for part := range strings.SplitSeq(text, "+") {
		kind, list, has := strings.Cut(strings.TrimSpace(part), ":")
		numbers := []int{}
		if has {
			var err error
			if numbers, err = parseRanges(list); err != nil {
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

// mostDevices is the limit for the numbers in a range.
const mostDevices = 1024

// parseRanges parses a list of numbers and ranges, such as "0,2-3".
func parseRanges(text string) ([]int, error) {
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
