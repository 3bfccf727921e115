package smi

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe" // cgo passes results as unsafe.Pointer
)

// maxLinks is the largest number of NVLinks of a simulated GPU.
const maxLinks = 18

// nvlink reads the options of nvlink.
func (q query) nvlink(args []string) (query, error) {
	q.show = showNVLink
	list, err := options(args, "-i", "--id")
	if err != nil {
		return q, err
	}
	kinds := map[string]func(r *reader, link uint32) []string{
		"-s": linkStatus, "--status": linkStatus, "-c": linkCapabilities, "--capabilities": linkCapabilities,
		"-e": linkErrors, "--errorcounters": linkErrors,
	}
	for _, o := range list {
		kind := kinds[o.key]
		switch {
		case o.key == "-i" || o.key == "--id":
			q.ids = strings.Split(o.value, ",")
		case kind != nil && q.link == nil:
			q.link = kind
		case kind != nil:
			return q, errors.New("nvlink: want one of -s, -c and -e")
		default:
			return q, notSimulated("nvlink " + o.key)
		}
	}
	if q.link == nil {
		return q, errors.New("nvlink: want -s, -c or -e")
	}
	return q, nil
}

// writeNVLink prints a line for each value of each NVLink. It prints nothing for a GPU without NVLinks.
func (q query) writeNVLink(lib *library, out io.Writer) error {
	readers, faults := q.readers(lib)
	var b strings.Builder
	for _, r := range readers {
		for link := range uint32(maxLinks) {
			if !getAt[uint32](r, "nvmlDeviceGetNvLinkState", link).known {
				break
			}
			if link == 0 {
				fmt.Fprintf(&b, "GPU %d: %s (UUID: %s)\n", r.gpu.index, r.gpu.name, r.gpu.uuid)
			}
			for _, line := range q.link(r, link) {
				b.WriteString(line + "\n")
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return errors.Join(faults, err)
}

// linkStatus returns the speed of a link.
func linkStatus(r *reader, link uint32) []string {
	if state := getAt[uint32](r, "nvmlDeviceGetNvLinkState", link); state.value != 1 {
		return []string{fmt.Sprintf("\t Link %d: <inactive>", link)}
	}
	speed := r.valueIn(fieldLinkSpeed, link)
	if !speed.known {
		return []string{fmt.Sprintf("\t Link %d: %s", link, unknown)}
	}
	return []string{fmt.Sprintf("\t Link %d: %g GB/s", link, float64(speed.value)/1000)}
}

// linkCapabilities returns the capabilities of a link, in the order of nvmlNvLinkCapability_t.
func linkCapabilities(r *reader, link uint32) []string {
	var lines []string
	for i, name := range []string{
		"P2P is supported", "Access to system memory supported", "P2P atomics supported", "System memory atomics supported", "SLI is supported", "Link is supported",
	} {
		var has uint32
		err := r.lib.deviceValueAt2(r.handle, "nvmlDeviceGetNvLinkCapability", link, uint32(i), unsafe.Pointer(&has))
		lines = append(lines, fmt.Sprintf("\t Link %d, %s: %t", link, name, err == nil && has != 0))
	}
	return lines
}

// linkErrors returns the counters of a link, in the order of nvmlNvLinkErrorCounter_t, and an empty line.
func linkErrors(r *reader, link uint32) []string {
	var lines []string
	for i, name := range []string{"Replay", "Recovery", "CRC"} {
		var count uint64
		shown := unknown
		if r.lib.deviceValueAt2(r.handle, "nvmlDeviceGetNvLinkErrorCounter", link, uint32(i), unsafe.Pointer(&count)) == nil {
			shown = fmt.Sprint(count)
		}
		lines = append(lines, fmt.Sprintf("\t Link %d: %s Errors: %s", link, name, shown))
	}
	return append(lines, "")
}
