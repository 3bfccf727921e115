package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Decode reads a Node from its JSON form. It rejects unknown fields and invalid values with an
// error that names each of the fields.
func Decode(data []byte) (*Node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var node *Node
	if err := dec.Decode(&node); err != nil {
		return nil, fmt.Errorf("line %d: %w", lineNumber(data, offset(dec, err, data)), err)
	}
	if node == nil {
		return nil, errors.New("it contains no node")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more than one JSON value", lineNumber(data, int(dec.InputOffset())))
	}
	if err := node.validate(); err != nil {
		return nil, err
	}
	return node, nil
}

// offset returns the position of an error in the input.
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

// lineNumber returns the number of the line that contains data[offset].
func lineNumber(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(offset, len(data))], []byte("\n"))
}

var (
	pciAddress = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	})
	clusterUUID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	})
)

// checker collects errors, by field.
type checker struct {
	errs []error
	// uuids holds the field of each UUID.
	uuids map[UUID]string
}

func (c *checker) check(ok bool, field, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
}

// uuid checks that id is valid and unique. It may be missing if there is a fault.
func (c *checker) uuid(id UUID, fault *Fault, field string) {
	if id == "" {
		c.check(fault != nil, field, "is missing")
		return
	}
	c.check(id.Valid(), field, "%q has characters other than letters, digits and -", id)
	other, twice := c.uuids[id]
	c.check(!twice, field, "%s appears twice, it is also %s", id, other)
	c.uuids[id] = field
}

func (n *Node) validate() error {
	c := &checker{uuids: map[UUID]string{}}
	c.check(n.Driver.Version != "" || len(n.Missing) > 0, "driver.version", "is missing")
	c.check(n.Driver.CUDA.Major >= 0 && n.Driver.CUDA.Minor >= 0, "driver.cuda", "is negative")
	for i := range n.GPUs {
		n.GPUs[i].validate(c, fmt.Sprintf("gpus[%d]", i), n.GPUs[:i])
	}
	for i, l := range n.Links {
		field := fmt.Sprintf("links[%d]", i)
		n.checkLink(c, field, l)
		twice := slices.ContainsFunc(n.Links[:i], func(o Link) bool { return o.A == l.A && o.B == l.B })
		c.check(!twice, field, "GPUs %d and %d are linked twice", l.A, l.B)
	}
	return errors.Join(c.errs...)
}

// checkLink checks a link without regard to other links.
func (n *Node) checkLink(c *checker, field string, l Link) {
	c.check(l.A < l.B, field, "a (%d) must be less than b (%d)", l.A, l.B)
	for _, index := range []int{l.A, l.B} {
		g := n.GPU(index)
		c.check(g != nil, field, "there is no GPU %d", index)
		c.check(g == nil || g.Fault == nil, field, "GPU %d has a fault, but only working GPUs have links", index)
	}
	c.check(l.NVLinks >= 0, field+".nvLinks", "is negative")
	c.check(l.NVSwitch >= 0, field+".nvSwitch", "is negative")
	c.check(slices.Contains(paths(), l.Path), field+".path", "%q is not one of %q", l.Path, paths())
}

// validate checks one GPU. before holds the GPUs before it. A GPU with a fault only needs an index.
func (g *GPU) validate(c *checker, field string, before []GPU) {
	c.check(g.Index >= 0, field+".index", "is negative")
	if len(before) > 0 {
		c.check(before[len(before)-1].Index < g.Index, field+".index", "must be greater than the index of the previous GPU")
	}
	c.uuid(g.UUID, g.Fault, field+".uuid")
	c.check(g.Minor >= 0 || g.Fault != nil, field+".minor", "is negative")
	c.check(g.PCI.BusID == "" && g.Fault != nil || pciAddress().MatchString(g.PCI.BusID),
		field+".pci.busId", "%q is not a PCI address like 0000:17:00.0", g.PCI.BusID)
	c.check(g.NUMANode >= -1, field+".numaNode", "is below -1")
	c.check(g.ComputeCapability.Major >= 0 && g.ComputeCapability.Minor >= 0, field+".computeCapability", "is negative")
	c.check(slices.Contains(recoveries(), g.Recovery), field+".recovery", "%q is not one of %q", g.Recovery, recoveries())
	for i, f := range g.MemoryFaults {
		c.check(slices.Contains(MemoryFaults(), f), fmt.Sprintf("%s.memoryFaults[%d]", field, i), "%q is not one of %q", f, MemoryFaults())
	}
	c.check(g.Fault == nil || g.Fault.Reason != "", field+".fault.reason", "is missing")
	if g.MIG != nil {
		g.MIG.validate(c, field+".mig")
	}
	if g.Fabric != nil {
		g.Fabric.validate(c, field+".fabric")
	}
}

// validate checks the fabric of one GPU.
func (f *Fabric) validate(c *checker, field string) {
	c.check(slices.Contains(fabricStates(), f.State), field+".state", "%q is not one of %q", f.State, fabricStates())
	ended := f.State == FabricCompleted
	c.check(f.Status != "" || !ended, field+".status", "is missing")
	c.check(f.Status == "" || ended, field+".status", "must be empty while the state is %q", f.State)
	named := f.ClusterUUID != ""
	c.check(!named || clusterUUID().MatchString(f.ClusterUUID), field+".clusterUuid",
		"%q is not a UUID like d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21", f.ClusterUUID)
	c.check(!named || strings.Trim(f.ClusterUUID, "0-") != "", field+".clusterUuid", "has only zeros: omit it")
}

func paths() []Path {
	return []Path{PathBoard, PathSwitch, PathSwitches, PathHostBridge, PathNUMANode, PathSystem, PathUndetermined}
}

func fabricStates() []FabricState {
	return []FabricState{FabricNotStarted, FabricInProgress, FabricCompleted}
}

func recoveries() []Recovery {
	return []Recovery{RecoveryUnknown, RecoveryNone, RecoveryReset, RecoveryReboot, RecoveryDrainP2P, RecoveryDrainAndReset, RecoveryIMEXDomain}
}
