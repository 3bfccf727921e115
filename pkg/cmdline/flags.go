package cmdline

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
)

// Check makes a flag accept only valid values. The parameter allowed describes them in errors. The
// default of a flag is not checked. T is the type of the flag's value.
func Check[T any](f cli.Flag, allowed string, valid func(T) bool) cli.Flag {
	// Run does not see the errors of these actions, so they name the variable themselves.
	action := any(func(_ *cli.Context, v T) error {
		if valid(v) {
			return nil
		}
		return Usagef("%w", invalid(f, fmt.Sprint(v), allowed))
	})
	switch f := f.(type) {
	case *cli.DurationFlag:
		f.Action = action.(func(*cli.Context, time.Duration) error)
	case *cli.IntFlag:
		f.Action = action.(func(*cli.Context, int) error)
	case *cli.PathFlag:
		f.Action = action.(func(*cli.Context, string) error)
	case *cli.StringFlag:
		f.Action = action.(func(*cli.Context, string) error)
	default:
		panic(fmt.Sprintf("flag --%s: no check for a %T", f.Names()[0], f))
	}
	return f
}

// Enum makes a flag accept only some words and its default.
func Enum[T ~string](f *cli.StringFlag, words ...T) cli.Flag {
	value := f.Value
	return Check(f, text.OneOf(words), func(v string) bool { return v == value || slices.Contains(words, T(v)) })
}

// Absolute makes a flag with a destination accept only an absolute path, and cleans it.
func Absolute(f *cli.PathFlag) cli.Flag {
	return Check(f, "an absolute path", func(v string) bool {
		*f.Destination = filepath.Clean(v)
		return filepath.IsAbs(v)
	})
}

// Positive makes a flag accept only a duration of more than 0.
func Positive(f *cli.DurationFlag) cli.Flag {
	return Check(f, "a duration of more than 0", func(v time.Duration) bool { return v > 0 })
}

// List makes a flag store its words, without empty ones, in *list. An empty value makes the list
// empty. Without the flag, the list has its default, or is nil.
func List(f *cli.StringSliceFlag, list *[]string) cli.Flag {
	if f.Value != nil {
		*list = f.Value.Value()
	}
	f.Action = func(_ *cli.Context, words []string) error {
		*list = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
		return nil
	}
	return f
}
