package table

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"outrigger.dev/pkg/text"
)

const (
	// home moves the cursor to the first column of the first line, and erase erases everything after it (ECMA-48).
	home, erase = "\x1b[H", "\x1b[J"
)

// Watch calls show again and again, with the given delay between two calls, until ctx ends. On a terminal, each view takes
// the place of the view before, and ends at the last line of the terminal. Otherwise an empty line separates two views.
// If show returns an error, Watch prints the error below the last view and goes on, because an API server may restart.
// It returns the error of the first call.
func Watch(ctx context.Context, o Out, delay time.Duration, show func(context.Context, Out) error) error {
	last := ""
	for first := true; ; first = false {
		var view strings.Builder
		next := o
		next.Writer = &view
		err := show(ctx, next)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the caller ends the view
		case err != nil && first:
			return err
		case err != nil:
			view.Reset()
			fmt.Fprintf(&view, "%s\n%s %s\n", last, o.Paint(Bad, "This view is old:"), text.OneLine(err))
		default:
			last = view.String()
		}
		if err := o.frame(view.String(), first); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
	}
}

// frame writes one view.
func (o Out) frame(view string, first bool) error {
	switch {
	case o.Terminal():
		view = home + erase + o.visible(view)
	case !first:
		view = "\n" + view
	}
	if _, err := fmt.Fprint(o, view); err != nil {
		return fmt.Errorf("print view: %w", err)
	}
	return nil
}

var sequence = regexp.MustCompile("\x1b\\[[0-9;]*m")

// visible returns the lines of a view that fit into the terminal.
func (o Out) visible(view string) string {
	lines := strings.SplitAfter(strings.TrimRight(view, "\n"), "\n")
	var b strings.Builder
	for i, used := 0, 0; i < len(lines); i++ {
		length := utf8.RuneCountInString(sequence.ReplaceAllString(strings.TrimRight(lines[i], "\n"), ""))
		rows := max(1, (length+o.Width-1)/o.Width)
		// The last line of the terminal is for the cursor, and the line before for the number of lines left out.
		if left := o.Height - 1 - used; rows > left || rows == left && i < len(lines)-1 {
			fmt.Fprintf(&b, "… %d more lines", len(lines)-i)
			break
		}
		used += rows
		b.WriteString(lines[i])
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
