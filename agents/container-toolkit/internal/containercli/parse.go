package containercli

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// values says whether a flag has a value.
type values int

const (
	without values = iota
	required
	// optional values follow the flag in the same argument: "--user=0", "-u0".
	optional
)

// optionalValue is the value of a flag that can be used without a value.
type optionalValue struct{}

func (optionalValue) String() string   { return "" }
func (optionalValue) Set(string) error { return nil }

// value says whether the flag with this name takes a value. An unknown flag takes none.
func (f *flags) value(name string) values {
	known := f.Lookup(name)
	if known == nil {
		return without
	}
	if _, ok := known.Value.(optionalValue); ok {
		return optional
	}
	if b, ok := known.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
		return without
	}
	return required
}

// parse reads the arguments as NVIDIA's program does, which uses getopt_long of the C library: long
// flags can be abbreviated, and one argument can have several letters and the value of the last one
// ("-cu", "-kd FILE", "-p1"). Flags of a command may follow its arguments.
func (f *flags) parse(args []string) error {
	var words, rest []string
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			rest = append(rest, args[1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if f.Name() == "" {
				// The flags of the command are not flags of the program.
				rest = args
				break
			}
			rest, args = append(rest, arg), args[1:]
			continue
		}
		found, waits, err := f.split(arg)
		if err != nil {
			return f.usageError(err)
		}
		words, args = append(words, found...), args[1:]
		if waits {
			if len(args) == 0 {
				return f.usageError(fmt.Errorf("flag needs an argument: %s", words[len(words)-1]))
			}
			words[len(words)-1] += "=" + args[0]
			args = args[1:]
		}
	}
	err := f.Parse(slices.Concat(words, []string{"--"}, rest))
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return f.usageError(err)
}

// split returns the flags of an argument, each with its whole name or its letter. waits is true if
// the next argument is the value of the last flag.
func (f *flags) split(arg string) (words []string, waits bool, err error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if strings.HasPrefix(arg, "--") || len(name) > 1 && f.Lookup(name) != nil {
		if name, err = f.complete(name); err != nil {
			return nil, false, err
		}
		word := "--" + name
		if hasValue || f.value(name) == optional {
			word += "=" + value
		}
		return []string{word}, f.value(name) == required && !hasValue, nil
	}
	for i := 1; i < len(arg); i++ {
		letter, after := arg[i:i+1], arg[i+1:]
		word, has := "-"+letter, f.value(letter)
		switch {
		case has == without && !strings.HasPrefix(after, "="):
			words = append(words, word)
			continue
		case has == required && after == "":
			return append(words, word), true, nil
		}
		return append(words, word+"="+strings.TrimPrefix(after, "=")), false, nil
	}
	return words, false, nil
}

// complete returns the only long name of a flag that begins with the given name. If there is no
// such flag, or a flag has exactly the given name, it returns the given name.
func (f *flags) complete(name string) (string, error) {
	var found []string
	f.VisitAll(func(one *flag.Flag) {
		if len(one.Name) > 1 && strings.HasPrefix(one.Name, name) {
			found = append(found, one.Name)
		}
	})
	switch {
	case len(found) == 0 || slices.Contains(found, name):
		return name, nil
	case len(found) > 1:
		return "", fmt.Errorf("flag --%s is ambiguous: --%s", name, strings.Join(found, ", --"))
	}
	return found[0], nil
}
