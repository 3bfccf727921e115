package cmdlinetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Peer has the flags of a program of NVIDIA that a program of this project replaces.
type Peer struct {
	// Flags has the flags by their command, "" for flags before a command. The form of a flag is
	// LETTER:NAME, or LETTER:NAME,ALIAS. The letter can be missing. "=" at the end means that the flag
	// has a value, and "[=]" that the value can be missing.
	Flags map[string]string
	// Everywhere is set if each command also accepts the flags before a command.
	Everywhere bool
	// Value returns a value that a flag accepts. Default: "0".
	Value func(name string) string
	// First or Last is a flag, before or after the tested flag, that ends the program before its command
	// runs. A flag that takes Last as its value would let the program run, so First is safer for a
	// program that reads the whole command line before it ends.
	First, Last string
	// Glued is set if a value can follow the letter of its flag without a space.
	Glued bool
}

// PeerFlag is a flag of a Peer.
type PeerFlag struct {
	Letter string
	Names  []string
	// Value is set if the flag has a value, and Optional if the value can be missing.
	Value, Optional bool
}

// PeerFlags returns the flags in the list of a command.
func PeerFlags(list string) []PeerFlag {
	var out []PeerFlag
	for entry := range strings.FieldsSeq(list) {
		var f PeerFlag
		var names string
		f.Letter, names, _ = strings.Cut(entry, ":")
		if names, f.Value = strings.CutSuffix(names, "="); !f.Value {
			names, f.Optional = strings.CutSuffix(names, "[=]")
		}
		f.Names = strings.Split(names, ",")
		out = append(out, f)
	}
	return out
}

// forms returns the words for a flag, in each form.
func (p Peer) forms(f PeerFlag) [][]string {
	value := "0"
	if p.Value != nil {
		value = p.Value(f.Names[0])
	}
	var out [][]string
	for _, name := range f.Names {
		name = "--" + name
		switch {
		case f.Value:
			out = append(out, []string{name + "=" + value}, []string{name, value})
		case f.Optional:
			out = append(out, []string{name}, []string{name + "=" + value})
		default:
			out = append(out, []string{name})
		}
	}
	switch letter := "-" + f.Letter; {
	case f.Letter == "":
	case f.Value && p.Glued:
		out = append(out, []string{letter, value}, []string{letter + value})
	case f.Value:
		out = append(out, []string{letter, value})
	default:
		out = append(out, []string{letter})
	}
	return out
}

// Accepts checks that the program accepts the flags of a peer in each form: a command line for the peer
// starts the program.
func (p Program) Accepts(t *testing.T, peer Peer) {
	t.Helper()
	for command, list := range peer.Flags {
		flags := PeerFlags(list)
		if peer.Everywhere && command != "" {
			flags = append(flags, PeerFlags(peer.Flags[""])...)
		}
		for _, f := range flags {
			for _, form := range peer.forms(f) {
				words := slices.Concat(strings.Fields(command), strings.Fields(peer.First), form, strings.Fields(peer.Last))
				var stdout, stderr bytes.Buffer
				if code := p.Run(append([]string{p.Name}, words...), &stdout, &stderr); code != 0 {
					t.Errorf("%s %s = %d: %s", p.Name, strings.Join(words, " "), code, stderr.String())
				}
			}
		}
	}
}
