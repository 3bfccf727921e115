package smi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query describes the requested output.
type query struct {
	show show
	// fields and apps are the fields of --query-gpu and --query-compute-apps.
	fields []field
	apps   []string
	// xml is set by -x.
	xml bool
	// header and units are set unless --format turns them off.
	header, units bool
	// ids selects GPUs: indices, UUIDs, serial numbers or bus IDs. Without ids, all GPUs are shown.
	ids []string
	// loop repeats the output. 0: it is printed once.
	loop time.Duration
	// count is the number of lines of dmon for each GPU; 0: no limit. metrics has its groups.
	count   int
	metrics string
	// capability is the letter of topo -p2p.
	capability string
	// link returns the lines of nvlink for a link.
	link func(r *reader, link uint32) []string
}

// show is an output format.
type show int

const (
	showTable    show = iota // no argument
	showList                 // -L
	showLog                  // -q
	showXML                  // -q -x
	showFields               // --query-gpu
	showApps                 // --query-compute-apps
	showTopology             // topo -m
	showP2P                  // topo -p2p
	showNVLink               // nvlink
	showMonitor              // dmon
	showHelp                 // --help-query-gpu
)

// option is an argument with its value.
type option struct{ key, value string }

// options splits arguments into options. An option of takesValue can have its value in the next
// argument.
func options(args []string, takesValue ...string) ([]option, error) {
	var list []option
	for len(args) > 0 {
		key, value, given := strings.Cut(args[0], "=")
		args = args[1:]
		if !given && slices.Contains(takesValue, key) {
			if len(args) == 0 {
				return nil, fmt.Errorf("option %s has no value", key)
			}
			value, args = args[0], args[1:]
		}
		list = append(list, option{key, value})
	}
	return list, nil
}

func parse(args []string) (query, error) {
	q := query{header: true, units: true}
	if len(args) > 0 {
		switch args[0] {
		case "topo":
			return q.topology(args)
		case "nvlink":
			return q.nvlink(args[1:])
		case "dmon":
			return q.monitor(args[1:])
		}
	}
	list, err := options(args, "-i", "--id", "-l", "--loop", "-lms", "--loop-ms", "--format", "--query-gpu", "--query-compute-apps")
	if err != nil {
		return q, err
	}
	format := ""
	for _, o := range list {
		if err := q.set(o, &format); err != nil {
			return q, err
		}
	}
	return q, q.complete(format)
}

// set applies an option of the program without a command.
func (q *query) set(o option, format *string) (err error) {
	switch o.key {
	case "-L", "--list-gpus":
		q.show = showList
	case "-q", "--query":
		q.show = showLog
	case "-x", "--xml-format":
		q.xml = true
	case "-i", "--id":
		q.ids = strings.Split(o.value, ",")
	case "-l", "--loop":
		q.loop, err = duration(o, time.Second)
	case "-lms", "--loop-ms":
		q.loop, err = duration(o, time.Millisecond)
	case "--format":
		*format = o.value
	case "--help-query-gpu":
		q.show = showHelp
	case "--query-gpu":
		q.show = showFields
		set := fields()
		for name := range strings.SplitSeq(o.value, ",") {
			f, err := set.find(name)
			if err != nil {
				return err
			}
			q.fields = append(q.fields, f)
		}
	case "--query-compute-apps":
		q.show = showApps
		q.apps, err = appFields(o.value)
	default:
		return notSimulated(o.key)
	}
	return err
}

// duration returns the value of an option as a positive number of units. An absent value is one unit.
func duration(o option, unit time.Duration) (time.Duration, error) {
	if o.value == "" {
		return unit, nil
	}
	n, err := strconv.Atoi(o.value)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("option %s=%s: want a number of at least 1", o.key, o.value)
	}
	return time.Duration(n) * unit, nil
}

// complete applies --format, and checks that the options fit together.
func (q *query) complete(format string) error {
	csv := q.show == showFields || q.show == showApps
	switch {
	case format == "" && csv:
		return errors.New("--query-gpu and --query-compute-apps need --format=csv[,noheader][,nounits]")
	case q.xml && q.show != showLog:
		return notSimulated("-x without -q")
	case q.xml:
		q.show = showXML
	case format != "" && !csv:
		return notSimulated("--format without --query-gpu or --query-compute-apps")
	}
	for i, word := range strings.Split(format, ",") {
		switch word = strings.TrimSpace(word); {
		case format == "", i == 0 && word == "csv":
		case i > 0 && word == "noheader":
			q.header = false
		case i > 0 && word == "nounits":
			q.units = false
		default:
			return fmt.Errorf("--format=%s: want csv[,noheader][,nounits]", format)
		}
	}
	return nil
}

func notSimulated(what string) error {
	return fmt.Errorf("%s: not simulated; there are the table without arguments, -L, -q, -x, -i, -l, -lms, --query-gpu and --query-compute-apps "+
		"with --format=csv[,noheader][,nounits], topo -m, topo -p2p, nvlink -s, -c and -e, dmon, -c MODE, and -r -i GPU,…", what)
}
