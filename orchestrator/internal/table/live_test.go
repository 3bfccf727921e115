package table_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/orchestrator/internal/table"
)

// watch shows the views of a list, one each second. An empty text is an error.
func watch(t *testing.T, o table.Out, views ...string) (string, error) {
	var out bytes.Buffer
	var err error
	synctest.Test(t, func(t *testing.T) {
		o.Writer = &out
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		err = table.Watch(ctx, o, time.Second, func(_ context.Context, o table.Out) error {
			view := views[0]
			if views = views[1:]; len(views) == 0 {
				defer time.AfterFunc(time.Second/2, stop)
			}
			if view == "" {
				return errors.New("the API server\nrestarts")
			}
			_, err := fmt.Fprint(o, view)
			return err
		})
	})
	return out.String(), err
}

func TestWatch(t *testing.T) {
	terminal := table.Out{Width: 10, Height: 4}
	for name, c := range map[string]struct {
		out   table.Out
		views []string
		want  string
	}{
		"no terminal":                      {table.Out{}, []string{"a\n", "b\n"}, "a\n\nb\n"},
		"a terminal":                       {terminal, []string{"a\n", "b\n"}, "\x1b[H\x1b[Ja\n\x1b[H\x1b[Jb\n"},
		"more lines than the terminal has": {terminal, []string{"1\n2\n3\n4\n5\n"}, "\x1b[H\x1b[J1\n2\n… 3 more lines\n"},
		"as many lines as fit":             {terminal, []string{"1\n2\n3\n"}, "\x1b[H\x1b[J1\n2\n3\n"},
		"a line that the terminal wraps":   {terminal, []string{strings.Repeat("x", 15) + "\n2\n3\n"}, "\x1b[H\x1b[J" + strings.Repeat("x", 15) + "\n… 2 more lines\n"},
		"an error keeps the last view":     {table.Out{}, []string{"a\n", "", "", "b\n"}, "a\n\na\n\nThis view is old: the API server; restarts\n\na\n\nThis view is old: the API server; restarts\n\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := watch(t, c.out, c.views...)
			if err != nil || got != c.want {
				t.Errorf("%v\n%q, want\n%q", err, got, c.want)
			}
		})
	}
	if _, err := watch(t, table.Out{}, ""); err == nil {
		t.Error("an error of the first view is not returned")
	}
}

func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		out  table.Out
		want string
	}{
		"no terminal": {table.Out{}, "slow\nslower 3\n"},
		"a terminal":  {table.Out{Width: 8, Height: 4}, "\r\x1b[Kslow …\r\x1b[Kslower…\r\x1b[Kslower…\r\x1b[K"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				c.out.Writer = &out
				p := table.NewProgress(c.out)
				p.Step("fast")
				<-time.After(time.Second)
				p.Step("slow")
				<-time.After(2 * time.Second)
				p.Step("slower %d", 2)
				p.Step("slower %d", 3)
				p.Step("slower %d", 3)
				<-time.After(9 * time.Second / 2)
				p.End()
				p.Step("late")
				if out.String() != c.want {
					t.Errorf("printed %q, want %q", out.String(), c.want)
				}
				out.Reset()
				p = table.NewProgress(c.out)
				p.Step("fast")
				p.End()
				<-time.After(5 * time.Second)
				if out.Len() > 0 {
					t.Errorf("a fast command printed %q", out.String())
				}
			})
		})
	}
}
