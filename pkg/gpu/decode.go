package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// Decode reads a Node from its JSON form. Unknown fields and values that no
// node has are errors, which name the field; all bad values are told at once.
func Decode(data []byte) (*Node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var node *Node
	if err := dec.Decode(&node); err != nil {
		return nil, fmt.Errorf("line %d: %w", line(data, offset(dec, err, data)), err)
	}
	if node == nil {
		return nil, errors.New("no node in it")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more than one JSON value", line(data, int(dec.InputOffset())))
	}
	if err := node.validate(); err != nil {
		return nil, err
	}
	return node, nil
}

// offset returns how far into the input an error is.
func offset(dec *json.Decoder, err error, data []byte) int {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return int(syntax.Offset)
	case errors.As(err, &kind):
		return int(kind.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return len(data)
	default:
		return int(dec.InputOffset())
	}
}

// line returns the number of the line in which data[offset] is.
func line(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(offset, len(data))], []byte("\n"))
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// checker collects what is wrong, by field.
type checker struct{ errs []error }

func (c *checker) check(ok bool, field, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
}

func (n *Node) validate() error {
	c := &checker{}
	c.check(n.Driver.Version != "", "driver.version", "is missing")
	c.check(n.Driver.CUDA.Major >= 0 && n.Driver.CUDA.Minor >= 0, "driver.cuda", "is negative")
	for i := range n.GPUs {
		n.GPUs[i].validate(c, fmt.Sprintf("gpus[%d]", i), n.GPUs[:i])
	}
	for i, l := range n.Links {
		field := fmt.Sprintf("links[%d]", i)
		c.check(l.A < l.B, field, "a (%d) is not below b (%d)", l.A, l.B)
		for _, index := range []int{l.A, l.B} {
			known := slices.ContainsFunc(n.GPUs, func(g GPU) bool { return g.Index == index })
			c.check(known, field, "there is no GPU %d", index)
		}
		twice := slices.ContainsFunc(n.Links[:i], func(o Link) bool { return o.A == l.A && o.B == l.B })
		c.check(!twice, field, "GPUs %d and %d are linked twice", l.A, l.B)
		c.check(l.NVLinks >= 0, field+".nvLinks", "is negative")
		c.check(l.NVSwitch >= 0, field+".nvSwitch", "is negative")
		c.check(slices.Contains(paths(), l.Path), field+".path", "%q is none of %q", l.Path, paths())
	}
	return errors.Join(c.errs...)
}

// validate checks one GPU; before are those in front of it. Of a GPU with a
// fault only the index has to be known.
func (g *GPU) validate(c *checker, field string, before []GPU) {
	c.check(g.Index >= 0, field+".index", "is negative")
	if len(before) > 0 {
		c.check(before[len(before)-1].Index < g.Index, field+".index", "is not above that of the GPU before")
	}
	c.check(g.UUID != "" || g.Fault != nil, field+".uuid", "is missing")
	c.check(g.UUID == "" || g.UUID.Valid(), field+".uuid", "%q has other characters than letters, digits and -", g.UUID)
	double := slices.ContainsFunc(before, func(o GPU) bool { return o.UUID == g.UUID })
	c.check(g.UUID == "" || !double, field+".uuid", "%s appears twice", g.UUID)
	c.check(g.Minor >= 0 || g.Fault != nil, field+".minor", "is negative")
	c.check(g.PCI.BusID == "" && g.Fault != nil || pciAddress.MatchString(g.PCI.BusID),
		field+".pci.busId", "%q is no PCI address like 0000:17:00.0", g.PCI.BusID)
	c.check(g.NUMANode >= -1, field+".numaNode", "is below -1")
	c.check(g.ComputeCapability.Major >= 0 && g.ComputeCapability.Minor >= 0, field+".computeCapability", "is negative")
	c.check(g.Fault == nil || g.Fault.Reason != "", field+".fault.reason", "is missing")
}

func paths() []Path {
	return []Path{PathBoard, PathSwitch, PathSwitches, PathHostBridge, PathNUMANode, PathSystem, PathUndetermined}
}
