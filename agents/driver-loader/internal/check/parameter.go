package check

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// maxValue is the largest length of a text value, in bytes: param_set_charp of the kernel.
const maxValue = 1024

// parameter checks a parameter in the form "name=value" or "name".
func (c *checker) parameter(param string) {
	name, value, given := strings.Cut(param, "=")
	// The kernel treats both characters as equal.
	same := func(p module.Param) bool {
		return strings.ReplaceAll(p.Name, "-", "_") == strings.ReplaceAll(name, "-", "_")
	}
	known := c.module.Params
	// The kernel adds these parameters to each module.
	known = append(slices.Clip(known), module.Param{Name: "dyndbg"}, module.Param{Name: "async_probe", Type: "bool"})
	i := slices.IndexFunc(known, same)
	if i < 0 {
		c.addWithFix(cause.ModuleParameterUnknown, fixUnknown(c.module.Params, name), "it has no parameter %q, which the kernel would ignore", text.Printable(name))
		return
	}
	if err := checkValue(known[i].Type, value, given); err != nil {
		c.addWithFix(cause.ModuleParameterInvalid, "correct the value of "+known[i].Name, "the parameter %s has the type %s, and %q is not valid: %v", known[i].Name, known[i].Type, text.Cut(value, 100), err)
	}
}

// fixUnknown suggests a parameter that ends with the unknown name, because people leave out prefixes
// such as NVreg_, or use the wrong case.
func fixUnknown(params []module.Param, name string) string {
	for _, p := range params {
		if name != "" && strings.HasSuffix(strings.ToLower(p.Name), strings.ToLower(name)) {
			return "write " + p.Name
		}
	}
	return "correct or remove it: modinfo -p lists the parameters"
}

var (
	errMissing = errors.New("it needs a value")
	errBool    = errors.New("y or n is expected")
	errNumber  = errors.New("a whole number is expected: decimal, hexadecimal with 0x, or octal with 0")
	errLong    = fmt.Errorf("it has more than %d bytes", maxValue)
)

// checkValue checks a value by the rules of the kernel's functions for the type (kernel/params.c).
// Types that a module defines itself accept any value.
func checkValue(kind, value string, given bool) error {
	if element, ok := strings.CutPrefix(kind, "array of "); ok {
		if !given {
			return errMissing
		}
		for one := range strings.SplitSeq(value, ",") {
			if err := checkValue(element, one, true); err != nil {
				return err
			}
		}
		return nil
	}
	switch kind {
	case "bool", "bint", "invbool", "bool_enable_only":
		if !given && kind != "invbool" {
			return nil
		}
		return checkBool(value)
	case "charp", "string":
		if !given {
			return errMissing
		}
		if len(value) > maxValue {
			return errLong
		}
		return nil
	}
	if size, ok := numbers()[kind]; ok {
		return size.check(value)
	}
	return nil
}

// checkBool follows kstrtobool of the kernel, which reads one or two characters.
func checkBool(value string) error {
	value = strings.ToLower(value)
	if value != "" && strings.Contains("yn10tf", value[:1]) || strings.HasPrefix(value, "on") || strings.HasPrefix(value, "of") {
		return nil
	}
	return errBool
}

// number describes an integer type.
type number struct {
	bits   int
	signed bool
}

func numbers() map[string]number {
	return map[string]number{
		"byte": {8, false}, "short": {16, true}, "ushort": {16, false}, "int": {32, true}, "uint": {32, false}, "hexint": {32, false},
		"long": {64, true}, "ulong": {64, false}, "ullong": {64, false},
	}
}

// digits matches the numbers that the kernel's kstrtoull and kstrtoll accept with base 0.
var digits = regexp.MustCompile(`^[+-]?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$`)

func (n number) check(value string) error {
	if !digits.MatchString(value) || !n.signed && value[0] == '-' {
		return errNumber
	}
	var err error
	if n.signed {
		_, err = strconv.ParseInt(value, 0, n.bits)
	} else {
		_, err = strconv.ParseUint(strings.TrimPrefix(value, "+"), 0, n.bits)
	}
	if err != nil {
		return fmt.Errorf("it does not fit into %d bits", n.bits)
	}
	return nil
}
