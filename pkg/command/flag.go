package command

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Flag is a flag of a command, which is one of the types of this file.
type Flag interface {
	// define adds the flag, and returns the variable that sets it, or "".
	define(*flag.FlagSet) (variable string, err error)
	// allowed describes the values that the type allows, or is "" if only their parser can.
	allowed() string
	names() []string
	visible() bool
	// describe returns the names and the text of the help.
	describe() (names, text string)
}

type (
	// StringFlag has a text.
	StringFlag = flagOf[string]
	// PathFlag has a path.
	PathFlag = flagOf[string]
	// BoolFlag is set, or has the value true or false.
	BoolFlag = flagOf[bool]
	// DurationFlag has a time like "1m30s".
	DurationFlag = flagOf[time.Duration]
	// StringSliceFlag can be repeated, and takes several values that commas separate.
	StringSliceFlag = flagOf[[]string]
	// GenericFlag has a value that reads itself.
	GenericFlag = flagOf[flag.Value]
)

type flagOf[T any] struct {
	Name    string
	Aliases []string
	// EnvVars set the flag if the command line does not; the first that exists counts.
	EnvVars []string
	// Value is the default, and DefaultText says what it is where the value does not.
	Value       T
	DefaultText string
	// Usage has the name of the flag's value in backquotes.
	Usage  string
	Hidden bool
}

func (f *flagOf[T]) names() []string { return append([]string{f.Name}, f.Aliases...) }

func (f *flagOf[T]) visible() bool { return !f.Hidden }

func (f *flagOf[T]) allowed() string {
	switch any(f.Value).(type) {
	case bool:
		return "true or false"
	case time.Duration:
		return "a duration such as 500ms, 30s or 5m"
	default:
		return ""
	}
}

func (f *flagOf[T]) define(set *flag.FlagSet) (from string, err error) {
	switch v := any(f.Value).(type) {
	case string:
		set.String(f.Name, v, "")
	case bool:
		set.Bool(f.Name, v, "")
	case time.Duration:
		set.Duration(f.Name, v, "")
	case []string:
		set.Var(&list{items: v}, f.Name, "")
	case flag.Value:
		set.Var(v, f.Name, "")
	}
	value := set.Lookup(f.Name).Value
	for _, variable := range f.EnvVars {
		text, ok := os.LookupEnv(variable)
		if !ok {
			continue
		}
		if _, isBool := any(f.Value).(bool); isBool && text == "" {
			text = "false"
		}
		if err := value.Set(text); err != nil {
			return "", named(invalid(f, f.Name, text, err), f.Name, variable)
		}
		if l, ok := value.(*list); ok {
			l.replaced = false
		}
		from = variable
		break
	}
	for _, alias := range f.Aliases {
		set.Var(value, alias, "")
	}
	return from, nil
}

// invalid returns the error about the value of a flag, which its parser has rejected.
func invalid(f Flag, name, value string, cause error) error {
	if allowed := f.allowed(); allowed != "" {
		return fmt.Errorf("flag %s: invalid value %q: must be %s", dashes(name), value, allowed)
	}
	return fmt.Errorf("flag %s: invalid value %q: %w", dashes(name), value, cause)
}

// namedError is an error whose text names a variable.
type namedError struct {
	error

	text string
}

func (e *namedError) Error() string { return e.text }

func (e *namedError) Unwrap() error { return e.error }

// named makes an error about a flag name the variable that has set it: people search for what
// they wrote.
func named(err error, flag, variable string) error {
	of := "flag " + dashes(flag)
	return &namedError{error: err, text: strings.ReplaceAll(err.Error(), of+": ", "environment variable "+variable+" ("+of+"): ")}
}

// list is the value of a StringSliceFlag. The first value replaces the default.
type list struct {
	items    []string
	replaced bool
}

// Set adds values.
func (l *list) Set(text string) error {
	if !l.replaced {
		l.items, l.replaced = nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		l.items = append(l.items, strings.TrimSpace(part))
	}
	return nil
}

func (l *list) String() string { return strings.Join(l.items, ",") }

// flags returns the flags of the command, with those that each has.
func (c *Context) flags() []Flag {
	out := append(slices.Clone(c.command.Flags), helpFlag())
	if c.above == nil {
		out = append(out, versionFlag())
	}
	return out
}

// byName returns the flag with a name of a call that was parsed.
func (c *Context) byName(name string) Flag {
	for f := range c.given {
		if slices.Contains(f.names(), name) {
			return f
		}
	}
	return nil
}

// lookUp returns the value of a flag of this command, or else of the nearest one above, nil
// if there is none.
func (c *Context) lookUp(name string) (flag.Value, bool) {
	for ; c != nil; c = c.above {
		if f := c.set.Lookup(name); f != nil {
			return f.Value, c.given[c.byName(name)]
		}
	}
	return nil, false
}

// get returns the value of a flag, or the zero value if there is none of the type.
func get[T any](c *Context, name string) T {
	value, _ := c.lookUp(name)
	var zero T
	if g, ok := value.(flag.Getter); ok {
		if v, ok := g.Get().(T); ok {
			return v
		}
	}
	return zero
}

// flag reports whether a flag that each command has is set.
func (c *Context) flag(name string) bool {
	f := c.set.Lookup(name)
	return f != nil && f.Value.String() == "true"
}

// IsSet reports whether the command line or a variable sets a flag.
func (c *Context) IsSet(name string) bool {
	_, given := c.lookUp(name)
	return given
}

// String returns the value of a StringFlag.
func (c *Context) String(name string) string { return get[string](c, name) }

// Path returns the value of a PathFlag.
func (c *Context) Path(name string) string { return get[string](c, name) }

// Bool returns the value of a BoolFlag.
func (c *Context) Bool(name string) bool { return get[bool](c, name) }

// Duration returns the value of a DurationFlag.
func (c *Context) Duration(name string) time.Duration { return get[time.Duration](c, name) }

// StringSlice returns the values of a StringSliceFlag.
func (c *Context) StringSlice(name string) []string { return get[[]string](c, name) }

// Get returns the values.
func (l *list) Get() any { return l.items }
