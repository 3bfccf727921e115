package model

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

const (
	// unknown is the value of a figure that is not known.
	unknown = "N/A"
	// maxNumber is the largest number that is accepted, except for memory.
	maxNumber = 1_000_000
	// maxMemory is the most memory in MiB: 16 TiB.
	maxMemory = 1 << 24
	// unknownPCI is the device ID of a product without one. No vendor uses it.
	unknownPCI = 0xffff10de
)

// The texts fit into the fields of the state.
const (
	maxName    = 31
	maxProduct = 79
	maxPart    = 31
	maxVersion = 15
	maxSource  = 255
)

// Parse reads the data file of a model. file is its name in errors. Parse reports all errors at once.
func Parse(file string, data []byte) (Model, error) {
	doc := strict.Parse(file, data)
	root := doc.Root().Map("name", "aliases", "product", "brand", "architecture", "computeCapability", "server", "pci",
		"memoryMiB", "processors", "engines", "powerW", "clocksMHz", "temperatureC", "firmware", "mig", "sources")
	p := &parser{}
	p.identity(root)
	p.board(root)
	p.m.MIG = migOf(root.Get("mig"), p.m.Memory)
	p.m.Sources = sourcesOf(root.Get("sources"))
	return p.m, doc.Err()
}

// parser collects the values of a model.
type parser struct{ m Model }

var (
	simpleName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	pciID      = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)
	capability = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]$`)
)

func (p *parser) identity(root strict.Map) {
	const aName = "lower-case letters, digits, dots and dashes, at most 31, such as my-gpu-48"
	name := root.Get("name")
	p.m.Name = textOf(name, maxName)
	switch {
	case !name.Set():
		name.Missing(aName)
	case !simpleName.MatchString(p.m.Name):
		name.Bad(aName)
	}
	for _, alias := range root.Get("aliases").List() {
		p.m.Aliases = append(p.m.Aliases, textOf(alias, maxName))
	}
	product := root.Get("product")
	p.m.Product = textOf(product, maxProduct)
	switch {
	case !product.Set():
		product.Missing("the name that nvidia-smi prints, such as NVIDIA L4")
	case isUnknown(product):
		product.Bad("the name that nvidia-smi prints, such as NVIDIA L4")
	}
	p.m.ComputeCapability = capabilityOf(root.Get("computeCapability"))
	p.m.Brand = wordOf(root.Get("brand"), brands(), brands()[0].name)
	p.m.Architecture = wordOf(root.Get("architecture"), architectures(), architectureOf(p.m.ComputeCapability))
	p.m.Server = serverOf(root.Get("server"))
}

func capabilityOf(v strict.Value) [2]int {
	const aCapability = `two numbers in quotes, such as "9.0"`
	if !v.Set() {
		v.Missing(aCapability)
		return [2]int{}
	}
	word, ok := v.Text()
	if !ok {
		return [2]int{}
	}
	if !capability.MatchString(word) {
		v.Bad(aCapability)
		return [2]int{}
	}
	major, minor, _ := strings.Cut(word, ".")
	return [2]int{number(major), number(minor)}
}

// number reads digits that a pattern has checked.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

func serverOf(v strict.Value) Server {
	all := servers()
	if !v.Set() {
		return all[0]
	}
	word, ok := v.Text()
	if !ok {
		return all[0]
	}
	i := slices.IndexFunc(all, func(s Server) bool { return s.Name == word })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		v.Bad("one of " + strings.Join(names, ", "))
		return all[0]
	}
	return all[i]
}

func (p *parser) board(root strict.Map) {
	pci := root.Get("pci").Map("id", "subsystem", "generation")
	p.m.PCI = PCI{ID: pciOf(pci.Get("id"), unknownPCI), Subsystem: pciOf(pci.Get("subsystem"), 0), Generation: intOf(pci.Get("generation"), maxNumber)}
	memory := root.Get("memoryMiB")
	part := memory.Map("total", "reserved", "bar1")
	total := part.Get("total")
	p.m.Memory, p.m.Reserved, p.m.BAR1 = intOf(total, maxMemory), intOf(part.Get("reserved"), maxMemory), intOf(part.Get("bar1"), maxMemory)
	switch {
	case !memory.Set():
		memory.Missing("a mapping with the key total, such as {total: 24576}")
	case !total.Set():
		total.Missing("the memory in MiB, such as 24576")
	case p.m.Memory == 0:
		total.Bad("the memory in MiB, such as 24576")
	case p.m.Reserved >= p.m.Memory:
		part.Get("reserved").Bad("less than memoryMiB.total")
	}
	processors := root.Get("processors").Map("sms", "coresPerSM")
	p.m.SMs, p.m.CoresPerSM = intOf(processors.Get("sms"), maxNumber), intOf(processors.Get("coresPerSM"), maxNumber)
	p.m.Engines = enginesOf(root.Get("engines").Map("decoders", "encoders", "jpegs", "ofas"))
	power := root.Get("powerW").Map("idle", "min", "max")
	p.m.Power = Power{Idle: intOf(power.Get("idle"), maxNumber), Min: intOf(power.Get("min"), maxNumber), Max: intOf(power.Get("max"), maxNumber)}
	if p.m.Power.Max > 0 && p.m.Power.Min > p.m.Power.Max {
		power.Get("min").Bad("at most powerW.max")
	}
	clocks := root.Get("clocksMHz").Map("idle", "max")
	p.m.Idle, p.m.Max = clocksOf(clocks.Get("idle")), clocksOf(clocks.Get("max"))
	t := root.Get("temperatureC").Map("gpu", "slowdown", "shutdown", "memory")
	p.m.Temperature = Temperature{GPU: intOf(t.Get("gpu"), maxNumber), Slowdown: intOf(t.Get("slowdown"), maxNumber), Shutdown: intOf(t.Get("shutdown"), maxNumber), Memory: intOf(t.Get("memory"), maxNumber)}
	f := root.Get("firmware").Map("boardPart", "vbios", "inforomImage", "inforomOEM", "inforomECC")
	p.m.Firmware = Firmware{
		BoardPart: textOf(f.Get("boardPart"), maxPart), VBIOS: textOf(f.Get("vbios"), maxPart),
		InforomImage: textOf(f.Get("inforomImage"), maxVersion), InforomOEM: textOf(f.Get("inforomOEM"), maxVersion), InforomECC: textOf(f.Get("inforomECC"), maxVersion),
	}
}

func clocksOf(v strict.Value) Clocks {
	c := v.Map("graphics", "sm", "memory", "video")
	return Clocks{Graphics: intOf(c.Get("graphics"), maxNumber), SM: intOf(c.Get("sm"), maxNumber), Memory: intOf(c.Get("memory"), maxNumber), Video: intOf(c.Get("video"), maxNumber)}
}

func enginesOf(e strict.Map) Engines {
	return Engines{Decoders: intOf(e.Get("decoders"), maxNumber), Encoders: intOf(e.Get("encoders"), maxNumber), JPEGs: intOf(e.Get("jpegs"), maxNumber), OFAs: intOf(e.Get("ofas"), maxNumber)}
}
