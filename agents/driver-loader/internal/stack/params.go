package stack

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/kernel"
)

// Params has the parameters of modules, in the form "name=value", by the names of the modules.
type Params map[string][]string

// Files returns the names of the files with module parameters. They are the keys of the ConfigMap that
// kernelModuleConfig of NVIDIA's operator names.
func Files() []string {
	return []string{"nvidia.conf", "nvidia-uvm.conf", "nvidia-modeset.conf", "nvidia-drm.conf", "nvidia-peermem.conf"}
}

// ModuleOf returns the module for the name of a file with parameters.
func ModuleOf(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".conf"), "-", "_")
}

// ParseParams parses a file with the parameters of one module: words of the form name=value, with double
// quotes around a value with spaces, and comments that begin with #. file is the name in errors.
func ParseParams(file, text string) ([]string, error) {
	var out []string
	for number, line := range strings.Split(text, "\n") {
		words, err := split(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, number+1, err)
		}
		for _, word := range words {
			name, _, ok := strings.Cut(word, "=")
			if !ok || !parameterName.MatchString(name) {
				return nil, fmt.Errorf("%s, line %d: %q is not in the format name=value", file, number+1, word)
			}
			if slices.ContainsFunc(out, func(other string) bool { return strings.HasPrefix(other, name+"=") }) {
				return nil, fmt.Errorf("%s, line %d: the parameter %s is set twice", file, number+1, name)
			}
			out = append(out, word)
		}
	}
	return out, nil
}

var parameterName = regexp.MustCompile(`^\w+$`)

// split returns the words of a line, without quotes.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted := false
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range strings.TrimSuffix(line, "\r") {
		switch {
		case r == '#' && !quoted && word.Len() == 0:
			return words, nil
		case !quoted && (r == ' ' || r == '\t'):
			end()
		case r == '"':
			quoted = !quoted
		case r < ' ' && r != '\t':
			return nil, fmt.Errorf("the control character %q is not allowed", r)
		default:
			word.WriteRune(r)
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	end()
	return words, nil
}

// Differ reports whether a desired parameter has another value in the loaded module. It skips parameters that the module
// does not show.
func (p Params) Differ(loaded map[string]kernel.Loaded) bool {
	for name, params := range p {
		for _, param := range params {
			key, want, _ := strings.Cut(param, "=")
			if is, shown := loaded[name].Params[key]; shown && !sameValue(want, is) {
				return true
			}
		}
	}
	return false
}

// sameValue reports whether two texts have the same value. The kernel shows a bool as Y or N, and numbers
// in base 10.
func sameValue(want, is string) bool {
	if want == is {
		return true
	}
	switch is {
	case "Y":
		return slices.Contains([]string{"1", "y", "on", "true"}, strings.ToLower(want))
	case "N":
		return slices.Contains([]string{"0", "n", "off", "false"}, strings.ToLower(want))
	}
	a, errA := number(want)
	b, errB := number(is)
	return errA == nil && errB == nil && a == b
}

// number parses a 64-bit number, with or without a sign, like the kernel: 0x for base 16, 0 for base 8.
func number(text string) (uint64, error) {
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(n), nil //nolint:gosec // the same bits are the same value
	}
	return strconv.ParseUint(text, 0, 64)
}

// Of returns the parameters of loaded modules.
func (p Params) Of(loaded map[string]kernel.Loaded) Params {
	out := Params{}
	for name, params := range p {
		if _, ok := loaded[name]; ok {
			out[name] = params
		}
	}
	return out
}

// Equal reports whether two sets of parameters are equal in any order.
func (p Params) Equal(other Params) bool {
	sorted := func(params Params) map[string]string {
		out := map[string]string{}
		for name, list := range params {
			if len(list) > 0 {
				out[name] = strings.Join(slices.Sorted(slices.Values(list)), "\n")
			}
		}
		return out
	}
	return maps.Equal(sorted(p), sorted(other))
}
