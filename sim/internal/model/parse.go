package model

import (
	"errors"
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
	p := &parser{}
	base := p.read(doc, file, append(keys(), "name", "aliases"))
	p.name(p.root.own.Get("name"))
	for _, alias := range p.root.own.Get("aliases").List() {
		p.m.Aliases = append(p.m.Aliases, textOf(alias, maxName))
	}
	return p.m, errors.Join(doc.Err(), base.Err())
}

// keys returns the keys of each model.
func keys() []string { return append([]string{"base", "sources"}, sections()...) }

// parser collects the values of a model.
type parser struct {
	root section
	m    Model
}

// read reads all values except for the names. It returns the document of the base.
func (p *parser) read(doc *strict.Doc, file string, known []string) *strict.Doc {
	p.root.own = doc.Root().Map(known...)
	base := strict.Parse("", nil)
	if ref := p.root.own.Get("base"); ref.Set() {
		base = p.base(ref, file)
	}
	p.identity()
	p.board()
	p.m.MIG = migOf(p.root, p.m.Memory)
	p.m.Sources = sourcesOf(p.root.own.Get("sources"))
	return base
}

// base reads the data file of the product that has the values of the keys that the model lacks.
func (p *parser) base(ref strict.Value, file string) *strict.Doc {
	name, ok := ref.Text()
	product, err := FindBuiltin(name)
	if ok && err != nil {
		ref.Bad("one of " + strings.Join(Names(), ", "))
	}
	if err != nil {
		product.Name = Default // to check the rest
	}
	data, err := Data(product.Name)
	if err != nil {
		panic(err) // it is embedded
	}
	doc := strict.Parse(file+": base "+product.Name, data)
	p.root.base = doc.Root().Map(append(keys(), "name", "aliases")...)
	return doc
}

var (
	simpleName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	pciID      = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)
	capability = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]$`)
)

const aName = "lower-case letters, digits, dots and dashes, at most 31, such as my-gpu-48"

func (p *parser) name(v strict.Value) {
	p.m.Name = textOf(v, maxName)
	switch {
	case !v.Set():
		v.Missing(aName)
	case !simpleName.MatchString(p.m.Name):
		v.Bad(aName)
	}
}

func (p *parser) identity() {
	product := p.root.Get("product")
	p.m.Product = textOf(product, maxProduct)
	switch {
	case !product.Set():
		product.Missing("the name that nvidia-smi prints, such as NVIDIA L4")
	case isUnknown(product):
		product.Bad("the name that nvidia-smi prints, such as NVIDIA L4")
	}
	p.m.ComputeCapability = capabilityOf(p.root.Get("computeCapability"))
	p.m.Brand = wordOf(p.root.Get("brand"), brands(), brands()[0].name)
	p.m.Architecture = wordOf(p.root.Get("architecture"), architectures(), architectureOf(p.m.ComputeCapability))
	p.m.Server = serverOf(p.root.Get("server"))
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

func (p *parser) board() {
	pci := p.root.Map("pci", "id", "subsystem", "generation")
	p.m.PCI = PCI{ID: pciOf(pci.Get("id"), unknownPCI), Subsystem: pciOf(pci.Get("subsystem"), 0), Generation: intOf(pci.Get("generation"), maxNumber)}
	p.memory()
	processors := p.root.Map("processors", "sms", "coresPerSM")
	p.m.SMs, p.m.CoresPerSM = intOf(processors.Get("sms"), maxNumber), intOf(processors.Get("coresPerSM"), maxNumber)
	p.m.Engines = enginesOf(p.root.Map("engines", "decoders", "encoders", "jpegs", "ofas"))
	power := p.root.Map("powerW", "idle", "min", "max")
	p.m.Power = Power{Idle: intOf(power.Get("idle"), maxNumber), Min: intOf(power.Get("min"), maxNumber), Max: intOf(power.Get("max"), maxNumber)}
	if p.m.Power.Max > 0 && p.m.Power.Min > p.m.Power.Max {
		power.Get("min").Bad("at most powerW.max")
	}
	clocks := p.root.Map("clocksMHz", "idle", "max")
	p.m.Idle, p.m.Max = clocksOf(clocks, "idle"), clocksOf(clocks, "max")
	t := p.root.Map("temperatureC", "gpu", "slowdown", "shutdown", "memory")
	p.m.Temperature = Temperature{GPU: intOf(t.Get("gpu"), maxNumber), Slowdown: intOf(t.Get("slowdown"), maxNumber), Shutdown: intOf(t.Get("shutdown"), maxNumber), Memory: intOf(t.Get("memory"), maxNumber)}
	f := p.root.Map("firmware", "boardPart", "vbios", "inforomImage", "inforomOEM", "inforomECC")
	p.m.Firmware = Firmware{
		BoardPart: textOf(f.Get("boardPart"), maxPart), VBIOS: textOf(f.Get("vbios"), maxPart),
		InforomImage: textOf(f.Get("inforomImage"), maxVersion), InforomOEM: textOf(f.Get("inforomOEM"), maxVersion), InforomECC: textOf(f.Get("inforomECC"), maxVersion),
	}
}

func (p *parser) memory() {
	memory := p.root.Get("memoryMiB")
	part := p.root.Map("memoryMiB", "total", "reserved", "bar1")
	total := part.Get("total")
	p.m.Reserved, p.m.BAR1 = intOf(part.Get("reserved"), maxMemory), intOf(part.Get("bar1"), maxMemory)
	switch {
	case !memory.Set():
		memory.Missing("a mapping with the key total, such as {total: 24576}")
	case !total.Set():
		total.Missing("the memory in MiB, such as 24576")
	case isUnknown(total):
		total.Bad("the memory in MiB, such as 24576")
	default:
		p.m.Memory, _ = total.Int(1, maxMemory)
		if p.m.Memory > 0 && p.m.Reserved >= p.m.Memory {
			part.Get("reserved").Bad("less than memoryMiB.total")
		}
	}
}

func clocksOf(of section, key string) Clocks {
	c := of.Map(key, "graphics", "sm", "memory", "video")
	return Clocks{Graphics: intOf(c.Get("graphics"), maxNumber), SM: intOf(c.Get("sm"), maxNumber), Memory: intOf(c.Get("memory"), maxNumber), Video: intOf(c.Get("video"), maxNumber)}
}

// mapping is a strict.Map or a section.
type mapping interface{ Get(key string) strict.Value }

func enginesOf(e mapping) Engines {
	return Engines{Decoders: intOf(e.Get("decoders"), maxNumber), Encoders: intOf(e.Get("encoders"), maxNumber), JPEGs: intOf(e.Get("jpegs"), maxNumber), OFAs: intOf(e.Get("ofas"), maxNumber)}
}
