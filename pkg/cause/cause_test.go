package cause_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

func TestACauseIsOneLineAndAnError(t *testing.T) {
	c := cause.Cause{Code: "ModuleInUse", Subject: "nvidia_uvm", Text: "in use by python (pid 12)", Fix: "stop it"}
	var found cause.Cause
	if err := fmt.Errorf("unload the driver: %w", c); !errors.As(err, &found) || found != c || err.Error() != "unload the driver: nvidia_uvm: in use by python (pid 12): stop it" {
		t.Errorf("%v", err)
	}
	if got := (cause.Cause{Subject: "kernel", Text: "is too old"}).Error(); got != "kernel: is too old" {
		t.Error(got)
	}
}

func TestAPublishedCauseIsReadAgain(t *testing.T) {
	use := cause.New(cause.ModuleInUse, "nvidia_uvm", "in use by python (pid 12); and by sh")
	disk := cause.New(cause.NoSpace, "/store", "the disk is full")
	read := func(c cause.Cause) cause.Cause {
		return cause.Cause{Code: c.Code, Text: c.Subject + ": " + c.Text, Fix: c.Fix}
	}
	own := cause.Cause{Code: cause.NoSpace, Subject: "/store", Text: "the disk is full", Fix: "buy one"}
	for name, tc := range map[string]struct {
		text string
		want []cause.Cause
	}{
		"a cause":             {use.Line(), []cause.Cause{read(use)}},
		"several as an error": {errors.Join(cause.Lines([]cause.Cause{use, disk})...).Error(), []cause.Cause{read(use), read(disk)}},
		"several in one line": {text.OneLine(errors.Join(cause.Lines([]cause.Cause{disk, use})...)), []cause.Cause{read(disk), read(use)}},
		"a fix of its place":  {own.Line(), []cause.Cause{{Code: cause.NoSpace, Text: "/store: the disk is full: buy one"}}},
		"after other text":    {"loader: waits; " + disk.Line(), []cause.Cause{read(disk)}},
		"another section":     {"xid: GPU 0: 79", nil},
		"no code":             {"the driver is loading: nvidia", nil},
		"a code without text": {"NoSpace", nil},
		"nothing":             {"", nil},
		"an unknown code":     {"Nothing: like: this", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, cause.Parse(tc.text, "driver", "upgrade")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := errors.Join(cause.Lines([]cause.Cause{use})...); !cause.Is(err, cause.ModuleInUse) {
		t.Errorf("%v is no cause", err)
	}
}
