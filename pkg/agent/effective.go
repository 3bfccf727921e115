package agent

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/urfave/cli/v2"
)

// SettingKey returns the key of a flag in the first line of the log.
func SettingKey(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// effective returns the settings in effect: the values of all flags, replaced by the values in
// over, and then the settings of over that have no flag.
func (s *session) effective(c *cli.Context, over []slog.Attr) slog.Value {
	attrs := make([]slog.Attr, 0, len(s.flags)+len(over))
	at := map[string]int{}
	put := func(a slog.Attr) {
		if i, ok := at[a.Key]; ok {
			attrs[i] = a
			return
		}
		at[a.Key] = len(attrs)
		attrs = append(attrs, a)
	}
	for _, f := range s.flags {
		name := f.Names()[0]
		put(slog.Any(SettingKey(name), flagValue(c.Value(name))))
	}
	for _, a := range over {
		put(a)
	}
	return slog.GroupValue(attrs...)
}

// flagValue returns the value of a flag in the form of a log attribute.
func flagValue(v any) any {
	switch set := v.(type) {
	case cli.IntSlice:
		return set.Value()
	case cli.StringSlice:
		return set.Value()
	case fmt.Stringer:
		return set.String()
	default:
		return v
	}
}
