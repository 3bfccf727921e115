package cmdline

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// Under puts flags into a category of package category, except flags that have one.
func Under(category string, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		if own := categoryOf(f); *own == "" {
			*own = category
		}
	}
	return flags
}

// categoryOf returns the field of a flag with its category.
func categoryOf(f cli.Flag) *string {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return &f.Category
	case *cli.DurationFlag:
		return &f.Category
	case *cli.IntFlag:
		return &f.Category
	case *cli.PathFlag:
		return &f.Category
	case *cli.StringFlag:
		return &f.Category
	case *cli.StringSliceFlag:
		return &f.Category
	default:
		panic(fmt.Sprintf("flag --%s: no category for a %T", f.Names()[0], f))
	}
}

// Example is a command line that the help of a program or a command shows.
type Example struct {
	// Purpose describes the effect of the command line in a sentence without a full stop.
	Purpose string
	// Line is the command line.
	Line string
}

// Describe returns the description of a program or a command: text, and then the examples.
func Describe(text string, examples ...Example) string {
	var b strings.Builder
	b.WriteString(text)
	for i, e := range examples {
		if i > 0 || text != "" {
			b.WriteString("\n\n")
		}
		if i == 0 {
			b.WriteString("Examples:\n")
		}
		b.WriteString("  # " + e.Purpose + "\n  " + e.Line)
	}
	return b.String()
}
