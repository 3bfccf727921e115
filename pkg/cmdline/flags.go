package cmdline

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
)

// Enum makes a flag accept only some words.
func Enum[T ~string](f *cli.StringFlag, words ...T) *cli.StringFlag {
	f.Action = accept(f, text.OneOf(words), func(v string) bool { return slices.Contains(words, T(v)) })
	return f
}

// Absolute makes a flag accept only an absolute path.
func Absolute(f *cli.PathFlag) *cli.PathFlag {
	f.Action = accept(f, "an absolute path", filepath.IsAbs)
	return f
}

// Least makes a flag accept no shorter duration than least.
func Least(f *cli.DurationFlag, least time.Duration) *cli.DurationFlag {
	f.Action = accept(f, "a duration of at least "+least.String(), func(v time.Duration) bool { return v >= least })
	return f
}

// Range makes a flag accept only numbers from least to most.
func Range(f *cli.IntFlag, least, most int) *cli.IntFlag {
	f.Action = accept(f, fmt.Sprintf("%d to %d", least, most), func(v int) bool { return least <= v && v <= most })
	return f
}

// accept returns the action of a flag that has only valid values; allowed describes them. Run
// does not see the errors of these actions, so they name the variable themselves.
func accept[T any](f cli.Flag, allowed string, valid func(T) bool) func(*cli.Context, T) error {
	return func(_ *cli.Context, v T) error {
		if valid(v) {
			return nil
		}
		return Usagef("%s: invalid value %q: must be %s", title(f), fmt.Sprint(v), allowed)
	}
}

// List makes a flag set a list of its words without blank ones: with an empty value, the list
// is empty, and without the flag it keeps its value.
func List(f *cli.StringSliceFlag, list *[]string) *cli.StringSliceFlag {
	f.Action = func(_ *cli.Context, words []string) error {
		*list = []string{}
		for _, v := range words {
			if v = strings.TrimSpace(v); v != "" {
				*list = append(*list, v)
			}
		}
		return nil
	}
	return f
}

// Alias adds names to flags, by the name that a flag has, unless a flag has the name already.
// It is for flags that several programs share; others have their Aliases.
func Alias(flags []cli.Flag, names map[string]string) {
	for _, alias := range slices.Sorted(maps.Keys(names)) { // as the help shows them
		if find(flags, alias) != nil {
			continue
		}
		name := names[alias]
		switch f := find(flags, name).(type) {
		case *cli.BoolFlag:
			f.Aliases = append(f.Aliases, alias)
		case *cli.DurationFlag:
			f.Aliases = append(f.Aliases, alias)
		case *cli.IntFlag:
			f.Aliases = append(f.Aliases, alias)
		case *cli.PathFlag:
			f.Aliases = append(f.Aliases, alias)
		case *cli.StringFlag:
			f.Aliases = append(f.Aliases, alias)
		case *cli.StringSliceFlag:
			f.Aliases = append(f.Aliases, alias)
		default:
			panic(fmt.Sprintf("alias --%s: no flag --%s of a type with aliases", alias, name))
		}
	}
}
