package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// Option is one setting: a row of the table for flags, the reader of the config file, the effective
// settings and NeedsRestart.
type Option struct {
	// Name is the name of the flag, without dashes.
	Name string
	// Aliases are other names of the flag.
	Aliases []string
	// Variables are the environment variables, the preferred one first.
	Variables []string
	// Key is the path of the key in the config file, for example "flags.plugin.deviceIDStrategy".
	// It is empty for an option that only flags and variables set.
	Key string
	// Restart says that a running process cannot change the value.
	Restart bool
	// Default says that the flag and its variables set the default of another option. The config
	// file takes precedence over it.
	Default bool
	// Usage is the help text; the word in back quotes stands for the value.
	Usage string
	// Category is the group of the flag in the help, of package category.
	Category string

	field
}

// Shape is the form of an option's value.
type Shape int

// The shapes.
const (
	// Text is one word, number or path.
	Text Shape = iota
	// Bool is true or false.
	Bool
	// List is any number of texts, which may be joined by commas.
	List
)

// Shape returns the form of the option's value.
func (o Option) Shape() Shape { return o.shape }

// Values returns the option's value in c, as texts that a flag accepts: one text, or any number for
// a List. The result is nil for an option that is not one field of c.
func (o Option) Values(c Config) []string {
	if o.values == nil {
		return nil
	}
	return o.values(&c)
}

// Explicit holds the values that flags and environment set, by the names of options: one text, or
// any number for a List. An option that was not set is not in it.
type Explicit map[string][]string

// value is the value of an option in a flag or the config file.
type value struct {
	texts []string
	// bad rejects the text with this index and describes the allowed texts. warn reports that the
	// value is accepted but does not have its full effect.
	bad  func(i int, allowed string)
	warn func(odd string)
}

// settings holds values by the names of options.
type settings map[string]value

// apply sets the options that are in s.
func (s settings) apply(c *Config, options []Option) {
	for _, o := range options {
		if v, ok := s[o.Name]; ok && o.set != nil {
			o.set(c, v)
		}
	}
}

// defaults returns the options that set defaults, and all others.
func defaults(all []Option) (defaults, others []Option) {
	for _, o := range all {
		if o.Default {
			defaults = append(defaults, o)
		} else {
			others = append(others, o)
		}
	}
	return defaults, others
}

// findings holds the errors and warnings about flags and variables.
type findings struct {
	errs     []error
	warnings []string
}

// settings returns the values of e. They add their errors and warnings to found.
func (e Explicit) settings(found *findings) settings {
	out := settings{}
	for name, texts := range e {
		out[name] = value{
			texts: texts,
			bad:   func(i int, allowed string) { found.errs = append(found.errs, badFlag(name, texts[i], allowed)) },
			warn:  func(odd string) { found.warnings = append(found.warnings, fmt.Sprintf("flag --%s: %s", name, odd)) },
		}
	}
	return out
}

// readOptions adds the settings of the section at path of a config file to s.
func (s settings) readOptions(v strict.Value, path string, options []Option) {
	rows := map[string]Option{}
	var keys []string
	for _, o := range options {
		rest, below := strings.CutPrefix(o.Key, path+".")
		if !below {
			continue
		}
		key, _, nested := strings.Cut(rest, ".")
		if !nested {
			rows[key] = o
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	m := v.Map(keys...)
	for _, key := range keys {
		if o, ok := rows[key]; ok {
			s.read(o, m.Get(key))
		} else {
			s.readOptions(m.Get(key), path+"."+key, options)
		}
	}
}

// read adds the value of o in the config file to s.
func (s settings) read(o Option, v strict.Value) {
	if !v.Set() {
		return
	}
	set := value{
		bad:  func(_ int, allowed string) { v.Bad(allowed) },
		warn: func(odd string) { v.Warn("%s", odd) },
	}
	switch {
	case o.shape == Bool:
		b, ok := v.Bool()
		if !ok {
			return
		}
		set.texts = []string{strconv.FormatBool(b)}
	case v.IsList() && o.shape == List:
		var entries []strict.Value
		for _, entry := range v.List() {
			if text, ok := entry.Text(); ok {
				set.texts, entries = append(set.texts, text), append(entries, entry)
			}
		}
		set.bad = func(i int, allowed string) { entries[i].Bad(allowed) }
	default:
		text, ok := v.Text()
		if !ok {
			return
		}
		set.texts = []string{text}
		if o.shape == List {
			set.texts = strings.Split(text, ",")
		}
	}
	s[o.Name] = set
}

// NeedsRestart returns the options whose values differ between two Configs and that a running
// process cannot change: the paths of the driver, the kubelet and the folders that it has open or
// mounted, and the destinations of its output. A running process can apply all other
// changes.
func NeedsRestart(old, changed Config) []string {
	var out []string
	for _, o := range Options() {
		if o.Restart && !o.same(&old, &changed) {
			out = append(out, o.Name)
		}
	}
	return out
}

func badFlag(flag, value, allowed string) error {
	return fmt.Errorf("flag --%s: invalid value %q: must be %s", flag, value, allowed)
}
