package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"outrigger.dev/pkg/text"
)

// field connects an Option with a field of a Config. Its functions are nil for an option that does not set one field.
type field struct {
	shape  Shape
	set    func(c *Config, v value)
	values func(c *Config) []string
	same   func(a, b *Config) bool
}

// defaultOf returns f for an option that sets the default of another option. The result does not have the function
// values, because the value belongs to the other option.
func defaultOf(f field) field { return field{shape: f.shape, set: f.set} }

// kind converts values of one type from and to text.
type kind[T comparable] struct {
	// parse returns the value of a text, or a description of the allowed texts.
	parse  func(text string) (v T, allowed string)
	format func(v T) string
	// warn returns a warning about a text that parse accepts, or an empty one. It is nil for a type
	// without warnings.
	warn func(text string) string
	// shape is the shape of a single value.
	shape Shape
	// needed is set if a list must have an entry.
	needed bool
}

// valueField returns the field of an option with a single value.
func valueField[T comparable](k kind[T], of func(*Config) *T) field {
	return field{
		shape: k.shape,
		set: func(c *Config, v value) {
			got, allowed := k.parse(v.texts[0])
			if allowed != "" {
				v.bad(0, allowed)
				return
			}
			if k.warn != nil {
				if odd := k.warn(v.texts[0]); odd != "" {
					v.warn(odd)
				}
			}
			*of(c) = got
		},
		values: func(c *Config) []string { return []string{k.format(*of(c))} },
		same:   func(a, b *Config) bool { return *of(a) == *of(b) },
	}
}

// listField returns the field of an option with a list of values. It removes duplicates, so that
// a container does not get a device twice. It removes blank values, so that an empty variable is an empty list.
// If the list must have an entry, an empty list has no effect.
func listField[T comparable](k kind[T], of func(*Config) *[]T) field {
	return field{
		shape: List,
		set: func(c *Config, v value) {
			var out []T
			texts := 0
			for i, text := range v.texts {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				texts++
				got, allowed := k.parse(text)
				if allowed != "" {
					v.bad(i, allowed)
				} else if !slices.Contains(out, got) {
					out = append(out, got)
				}
			}
			if texts == 0 && k.needed {
				v.warn("the list is empty and has no effect")
				return
			}
			*of(c) = out
		},
		values: func(c *Config) []string {
			out := []string{}
			for _, v := range *of(c) {
				out = append(out, k.format(v))
			}
			return out
		},
		same: func(a, b *Config) bool { return slices.Equal(*of(a), *of(b)) },
	}
}

// enum is the kind of a value that is one of a few words.
func enum[T ~string](words []T) kind[T] {
	return kind[T]{
		parse: func(t string) (T, string) {
			if !slices.Contains(words, T(t)) {
				return "", text.OneOf(words)
			}
			return T(t), ""
		},
		format: func(v T) string { return string(v) },
	}
}

// nonEmptyEnum is enum for a list that must have an entry.
func nonEmptyEnum[T ~string](words []T) kind[T] {
	k := enum(words)
	k.needed = true
	return k
}

func anyText() kind[string] {
	return kind[string]{
		parse:  func(t string) (string, string) { return t, "" },
		format: func(v string) string { return v },
	}
}

// path is the kind of an absolute path.
func path() kind[string] {
	k := anyText()
	k.parse = func(t string) (string, string) {
		switch {
		case !filepath.IsAbs(t):
			return "", "an absolute path"
		case unwritable(t):
			return "", "an absolute path without control characters"
		}
		return filepath.Clean(t), ""
	}
	return k
}

// unwritable reports whether a text would break the files and messages that contain it.
func unwritable(t string) bool {
	return !utf8.ValidString(t) || strings.ContainsFunc(t, unicode.IsControl)
}

// annotationPrefix returns the kind of a prefix of annotation keys.
func annotationPrefix() kind[string] {
	k := anyText()
	k.parse = func(t string) (string, string) {
		if unwritable(t) || strings.ContainsFunc(t, unicode.IsSpace) {
			return "", "a prefix like cdi.k8s.io/, without spaces and control characters"
		}
		return t, ""
	}
	return k
}

// optionalPath is the kind of an absolute path that may be empty.
func optionalPath() kind[string] {
	k := path()
	parse := k.parse
	k.parse = func(t string) (string, string) {
		if t == "" {
			return "", ""
		}
		return parse(t)
	}
	return k
}

// boolean is the kind of a bool, with the texts of strconv.FormatBool.
func boolean() kind[bool] {
	return kind[bool]{
		shape:  Bool,
		parse:  func(t string) (bool, string) { return t == "true", "" },
		format: strconv.FormatBool,
	}
}

// interval is the kind of a time, with 0 for infinite. As in NVIDIA's programs, a number is in
// nanoseconds. A time that is too short to be intended is replaced by sleepInterval, because
// without a pause a node would send requests to the API server all the time.
func interval() kind[time.Duration] {
	return kind[time.Duration]{
		parse: func(t string) (time.Duration, string) {
			if t == infinite {
				return 0, ""
			}
			d, ok := duration(t)
			if !ok {
				return 0, "a time like 60s, or " + infinite
			}
			if d < shortest {
				d = sleepInterval
			}
			return d, ""
		},
		warn: func(t string) string {
			d, ok := duration(t)
			if !ok || d >= shortest {
				return ""
			}
			return fmt.Sprintf("%q is %s, which is too short, using %s: write a time with a unit like 60s", t, d, sleepInterval)
		},
		format: func(d time.Duration) string {
			if d == 0 {
				return infinite
			}
			return d.String()
		},
	}
}

const (
	infinite = "infinite"
	shortest = time.Millisecond
)

// duration parses a time, or a number of nanoseconds. Helm writes a large number as 6e+10.
func duration(t string) (time.Duration, bool) {
	if n, err := strconv.ParseInt(t, 10, 64); err == nil && strconv.FormatInt(n, 10) == t {
		return time.Duration(n), true
	}
	if f, err := strconv.ParseFloat(t, 64); err == nil && strings.ContainsAny(t, ".eE") {
		return time.Duration(f), math.Abs(f) < math.MaxInt64
	}
	d, err := time.ParseDuration(t)
	return d, err == nil
}

// discovery also knows the word tegra, which other programs accept in the same file, to explain why
// it is rejected.
func discovery() kind[Discovery] {
	k := enum(discoveries())
	parse := k.parse
	k.parse = func(t string) (Discovery, string) {
		v, allowed := parse(t)
		if t == discoveryTegra {
			allowed += ": the integrated GPUs of Tegra have no NVML, through which GPUs are discovered"
		}
		return v, allowed
	}
	return k
}

func imexChannel() kind[int] {
	return kind[int]{
		parse: func(t string) (int, string) {
			if t != "0" {
				return 0, "empty or 0, the only channel that containers of a node can share"
			}
			return 0, ""
		},
		format: strconv.Itoa,
	}
}

// nodeFeature is the kind of the switch for the API of Node Feature Discovery. If the switch is
// off, labels go to its file, as in GPU Feature Discovery.
func nodeFeature() kind[Output] {
	return kind[Output]{
		shape: Bool,
		parse: func(t string) (Output, string) {
			if t == "true" {
				return OutputNodeFeature, ""
			}
			return OutputFile, ""
		},
		format: func(v Output) string { return strconv.FormatBool(v == OutputNodeFeature) },
	}
}

// kubeletSocket is the field of the path of the socket. An empty path turns registration off, and
// keeps the default path for the plugin's sockets.
func kubeletSocket() field {
	f := valueField(optionalPath(), func(c *Config) *string { return &c.KubeletSocket })
	set := f.set
	f.set = func(c *Config, v value) {
		before := c.KubeletSocket
		set(c, v)
		if c.Register = c.KubeletSocket != ""; !c.Register {
			c.KubeletSocket = before
		}
	}
	values := f.values
	f.values = func(c *Config) []string {
		if !c.Register {
			return []string{""}
		}
		return values(c)
	}
	f.same = func(a, b *Config) bool { return a.KubeletSocket == b.KubeletSocket && a.Register == b.Register }
	return f
}
