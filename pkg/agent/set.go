package agent

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// SetText returns the value of a flag, nil if neither the command line nor the
// environment sets it.
func SetText[T ~string](c *cli.Context, flag string) *T {
	if !c.IsSet(flag) {
		return nil
	}
	v := T(c.String(flag))
	return &v
}

// SetTexts returns the words of a list, nil if it is not set; an empty word is
// none, so that an empty variable is an empty list.
func SetTexts[T ~string](c *cli.Context, flag string) []T {
	if !c.IsSet(flag) {
		return nil
	}
	out := []T{}
	for _, v := range c.StringSlice(flag) {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, T(v))
		}
	}
	return out
}

// SetBool returns the value of a flag, nil if it is not set.
func SetBool(c *cli.Context, flag string) *bool {
	if !c.IsSet(flag) {
		return nil
	}
	v := c.Bool(flag)
	return &v
}

// SetInts returns the numbers of a list, nil if it is not set.
func SetInts(c *cli.Context, flag string) []int {
	if !c.IsSet(flag) {
		return nil
	}
	return append([]int{}, c.IntSlice(flag)...)
}
