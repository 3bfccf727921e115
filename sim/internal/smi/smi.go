package smi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Name is the name of the program nvidia-smi.
const Name = "nvidia-smi"

// IsProgram reports whether a program with this name belongs to the driver.
func IsProgram(name string) bool { return strings.HasPrefix(name, "nvidia-") }

// Run simulates the program with this name.
func Run(name string, args []string, out io.Writer) error {
	if err := run(name, args, out); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func run(name string, args []string, out io.Writer) error {
	if name == persistenced {
		return startDaemon()
	}
	if name != Name {
		return errors.New("not simulated: this node's driver has the file only")
	}
	if r, ok := parseReset(args); ok {
		return r.run(out)
	}
	if c, ok, err := parseCompute(args); ok {
		if err != nil {
			return err
		}
		return c.run(out)
	}
	q, err := parse(args)
	if err != nil {
		return err
	}
	return q.run(out)
}

func (q query) run(out io.Writer) (err error) {
	if q.show == showHelp {
		return writeHelp(out)
	}
	lib, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.close()) }()
	if q.show == showMonitor {
		return q.writeMonitor(lib, out)
	}
	if q.loop == 0 {
		return q.print(lib, out)
	}
	if err := q.print(lib, out); err != nil {
		return err
	}
	again := q
	again.header = false
	// Only a signal, or a reader that has ended, ends the loop.
	for range time.Tick(q.loop) {
		if err := again.print(lib, out); err != nil {
			return err
		}
	}
	return nil
}

// print prints the output once.
func (q query) print(lib *library, out io.Writer) error {
	switch q.show {
	case showFields:
		return q.writeFields(lib, out)
	case showApps:
		return q.writeApps(lib, out)
	case showXML:
		return q.writeXML(lib, out)
	case showTopology:
		return q.writeTopology(lib, out)
	case showP2P:
		return q.writeP2P(lib, out)
	case showNVLink:
		return q.writeNVLink(lib, out)
	case showList:
		return q.writeList(lib, out)
	default:
		return q.writeAll(lib, out)
	}
}

// chosen returns the GPUs of -i, or all GPUs, and the number of all GPUs.
func (q query) chosen(lib *library) ([]gpu, int, error) {
	all, err := lib.gpus()
	if err != nil || len(q.ids) == 0 {
		return all, len(all), err
	}
	var list []gpu
	for _, id := range q.ids {
		i := slices.IndexFunc(all, func(g gpu) bool { return lib.isCalled(g, strings.TrimSpace(id)) })
		if i < 0 {
			return nil, 0, fmt.Errorf("No devices were found: %s", id) //nolint:staticcheck // NVIDIA's text
		}
		list = append(list, all[i])
	}
	return list, len(all), nil
}

// isCalled reports whether id is the index, UUID, serial number or bus ID of a GPU.
func (l *library) isCalled(g gpu, id string) bool {
	if id == fmt.Sprint(g.index) || id == g.uuid {
		return true
	}
	if g.handle == nil {
		return false
	}
	r := &reader{lib: l, handle: g.handle}
	bus := device{pci: get[pciInfo](r, "nvmlDeviceGetPciInfo_v3")}.busID()
	return r.text("nvmlDeviceGetSerial").value == id || strings.EqualFold(bus, id) || strings.EqualFold(strings.TrimPrefix(bus, "0000"), id)
}

// readers returns a reader for each GPU that answers, and the errors of the others.
func (q query) readers(lib *library) ([]*reader, error) {
	gpus, count, err := q.chosen(lib)
	if err != nil {
		return nil, err
	}
	info := nodeInfo{time: time.Now(), count: count}
	if info.driver, err = lib.driver(); err != nil {
		return nil, err
	}
	var list []*reader
	var errs []error
	for _, g := range gpus {
		errs = append(errs, g.fault())
		if g.err == nil {
			list = append(list, &reader{lib: lib, handle: g.handle, gpu: g, node: info})
		}
	}
	return list, errors.Join(errs...)
}

// fault returns the error that prevents a GPU from being shown, or nil.
func (g gpu) fault() error {
	if g.err == nil {
		return nil
	}
	return fmt.Errorf("GPU %d: %w", g.index, g.err)
}

// writeAll prints the table or the log.
func (q query) writeAll(lib *library, out io.Writer) error {
	gpus, count, err := q.chosen(lib)
	if err != nil {
		return err
	}
	n, err := lib.node(gpus, count)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range n.devices {
		errs = append(errs, d.fault())
	}
	if q.show == showLog {
		return errors.Join(append(errs, n.writeLog(out))...)
	}
	return errors.Join(append(errs, n.writeTable(out))...)
}

// writeList prints the GPUs and their MIG devices.
func (q query) writeList(lib *library, out io.Writer) error {
	gpus, _, err := q.chosen(lib)
	if err != nil {
		return err
	}
	var b strings.Builder
	var errs []error
	for _, g := range gpus {
		if errs = append(errs, g.fault()); g.err != nil {
			continue
		}
		fmt.Fprintf(&b, "GPU %d: %s (UUID: %s)\n", g.index, g.name, g.uuid)
		for _, m := range g.mig {
			_, profile, _ := strings.Cut(m.name, " MIG ")
			fmt.Fprintf(&b, "  MIG %-12sDevice %2d: (UUID: %s)\n", profile, m.index, m.uuid)
		}
	}
	_, err = io.WriteString(out, b.String())
	return errors.Join(append(errs, err)...)
}
