// Package require evaluates the conditions of the variables NVIDIA_REQUIRE_* against the
// driver and the GPUs of a node. It does no I/O.
//
// A condition has terms separated by spaces, and one of the terms must hold. A term has factors
// separated by commas, and all factors must hold. A factor compares a property with a value:
// "cuda>=12.6 brand=tesla,driver>=470,driver<471". The properties cuda, driver and arch are
// versions. The property brand is a name.
package require

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/text"
)

// Driver has facts about the driver. An empty field means that the fact is not known.
type Driver struct {
	// Version is the version of the kernel driver: "580.95.05".
	Version string
	// CUDA is the newest CUDA version that the driver supports: "13.0". If it is empty, CUDAOf derives
	// it from Version.
	CUDA string
}

// GPU has facts about a GPU. An empty field means that the fact is not known.
type GPU struct {
	// Name is the name that the container used to ask for the GPU.
	Name string
	// Arch is the compute capability: "9.0".
	Arch string
	// Brand is in lower case: "tesla".
	Brand string
}

// Check returns an error unless the condition of a variable holds for the driver and each GPU.
// Without GPUs, only factors about the driver can hold. The error has the properties of the node,
// and the fix.
func Check(variable, condition string, driver Driver, gpus ...GPU) error {
	terms, err := parse(condition)
	if err != nil {
		return fmt.Errorf("check %s=%s: %w", variable, printable(condition), err)
	}
	if len(gpus) == 0 {
		gpus = []GPU{{}}
	}
	for _, g := range gpus {
		has := facts(driver, g)
		if slices.ContainsFunc(terms, has.meetsAll) {
			continue
		}
		subject := "the driver"
		if g.Name != "" {
			subject = "GPU " + text.Printable(g.Name)
		}
		return fmt.Errorf("%s does not meet %s=%s: %s: update the driver, or ignore requirements with NVIDIA_DISABLE_REQUIRE=true",
			subject, variable, printable(condition), has.describe(terms))
	}
	return nil
}

func printable(condition string) string { return text.Cut(text.Printable(condition), 200) }

// term holds if all of its factors hold.
type term []factor

// factor compares a property with a value.
type factor struct{ property, op, value string }

func parse(condition string) ([]term, error) {
	var terms []term
	for word := range strings.FieldsSeq(condition) {
		var t term
		for part := range strings.SplitSeq(word, ",") {
			if part == "" {
				continue
			}
			f, err := parseFactor(part)
			if err != nil {
				return nil, err
			}
			t = append(t, f)
		}
		if len(t) > 0 {
			terms = append(terms, t)
		}
	}
	if len(terms) == 0 {
		return nil, fmt.Errorf("it has no condition")
	}
	return terms, nil
}

func parseFactor(s string) (factor, error) {
	end := strings.IndexAny(s, "=!<>")
	if end <= 0 {
		return factor{}, invalid(s)
	}
	f := factor{property: s[:end]}
	for _, op := range []string{"!=", "<=", ">=", "=", "<", ">"} {
		if value, ok := strings.CutPrefix(s[end:], op); ok {
			f.op, f.value = op, value
			break
		}
	}
	switch f.property {
	case "cuda", "driver", "arch":
		if parseVersion(f.value) == nil {
			return factor{}, invalid(s)
		}
	case "brand":
		if f.value == "" || f.op != "=" && f.op != "!=" {
			return factor{}, invalid(s)
		}
	default:
		// Images for later toolkits may use other properties. Their factors do not hold.
	}
	if f.op == "" {
		return factor{}, invalid(s)
	}
	return f, nil
}

func invalid(factor string) error {
	return fmt.Errorf("%q is invalid: write a comparison like cuda>=12.4, driver<571, arch>=8.0 or brand=tesla", text.Cut(text.Printable(factor), 60))
}

// properties has the values of the known properties.
type properties map[string]string

func facts(d Driver, g GPU) properties {
	return properties{"cuda": cmp.Or(d.CUDA, CUDAOf(d.Version)), "driver": d.Version, "arch": g.Arch, "brand": g.Brand}
}

func (k properties) meetsAll(t term) bool {
	return !slices.ContainsFunc(t, func(f factor) bool { return !k.meets(f) })
}

func (k properties) meets(f factor) bool {
	value := k[f.property]
	if value == "" {
		return false
	}
	if f.property == "brand" {
		return strings.EqualFold(value, f.value) == (f.op == "=")
	}
	has := parseVersion(value)
	if has == nil {
		return false
	}
	order := compare(has, parseVersion(f.value))
	switch f.op {
	case "=":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

// describe lists the properties that the terms name, each with its value.
func (k properties) describe(terms []term) string {
	var names, unknown []string
	for _, t := range terms {
		for _, f := range t {
			if slices.Contains(names, f.property) || slices.Contains(unknown, f.property) {
				continue
			}
			if k[f.property] == "" {
				unknown = append(unknown, f.property)
			} else {
				names = append(names, f.property)
			}
		}
	}
	for i, name := range names {
		names[i] = name + " is " + text.Printable(k[name])
	}
	out := strings.Join(names, ", ")
	for _, name := range unknown {
		if out != "" {
			out += ", "
		}
		if _, property := k[name]; property {
			out += name + " is unknown (write the CDI spec again with nvidia-ctk cdi generate)"
		} else {
			out += "there is no property " + text.Cut(text.Printable(name), 40)
		}
	}
	return out
}

// parseVersion returns the numbers of a version like "12.6", or nil if it is invalid.
func parseVersion(s string) []uint64 {
	var out []uint64
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// compare orders versions. Missing numbers are 0.
func compare(a, b []uint64) int {
	for i := range max(len(a), len(b)) {
		var x, y uint64
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}
