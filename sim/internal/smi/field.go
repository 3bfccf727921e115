package smi

import (
	"fmt"
	"slices"
	"strings"
)

// field is a value of a GPU in --query-gpu and in the XML output.
type field struct {
	// name is the name in the header, and aliases has the other names of the option.
	name    string
	aliases []string
	// unit follows a value, as in "33 %".
	unit string
	// read returns the value without its unit, or unknown.
	read func(*reader) string
}

// fieldSet finds fields by their names.
type fieldSet struct {
	all    []field
	byName map[string]int
}

// fields returns all fields of a GPU.
func fields() fieldSet {
	set := fieldSet{all: slices.Concat(nodeFields(), identityFields(), busFields(), useFields(), clockFields(), eccFields()), byName: map[string]int{}}
	for i, f := range set.all {
		for _, name := range append(f.aliases, f.name) {
			set.byName[name] = i
		}
	}
	return set
}

// find returns the field with a name.
func (s fieldSet) find(name string) (field, error) {
	i, ok := s.byName[strings.TrimSpace(name)]
	if !ok {
		return field{}, fmt.Errorf("--query-gpu=%s: not simulated, or not a field of nvidia-smi; \"nvidia-smi --help-query-gpu\" lists the simulated fields", name)
	}
	return s.all[i], nil
}

// text returns the value with its unit.
func (f field) text(r *reader) string {
	value := f.read(r)
	if value == unknown || f.unit == "" {
		return value
	}
	return value + " " + f.unit
}

// number returns a field with the result of a function for the device.
func number(name, unit, symbol string, aliases ...string) field {
	return field{name, aliases, unit, func(r *reader) string { return get[uint32](r, symbol).format("%d") }}
}

// numberAt is number for a function with a kind.
func numberAt(name, unit, symbol string, kind uint32, aliases ...string) field {
	return field{name, aliases, unit, func(r *reader) string { return getAt[uint32](r, symbol, kind).format("%d") }}
}

// words returns a field with the word for a number.
func words(name, symbol string, of ...string) field {
	return field{name: name, read: func(r *reader) string { return nameOf(get[uint32](r, symbol), of...) }}
}

// textOf returns a field with the text of a function for the device.
func textOf(name, symbol string, aliases ...string) field {
	return field{name: name, aliases: aliases, read: func(r *reader) string { return r.text(symbol).format("%s") }}
}

func switchWords() []string { return []string{"Disabled", "Enabled"} }

// watt returns a field of power.
func watt(name string, read func(*reader) optional[uint32]) field {
	return field{name, nil, "W", func(r *reader) string {
		p := read(r)
		return optional[float64]{float64(p.value) / 1000, p.known}.format("%.2f") // from mW
	}}
}
