package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"outrigger.dev/pkg/cause"
)

func TestErrorsOfTheKernelHaveTheirFix(t *testing.T) {
	own := cause.Cause{Code: cause.Failed, Fix: "own"}
	for name, tc := range map[string]struct {
		err error
		fix string
	}{
		"not root":               {&fs.PathError{Op: "open", Path: "/store/lock", Err: syscall.EACCES}, "run the driver loader as root, in a privileged container"},
		"no capability":          {fmt.Errorf("load: %w", syscall.EPERM), "run the driver loader as root, in a privileged container"},
		"a read-only folder":     {&fs.PathError{Op: "mkdir", Path: "/store", Err: syscall.EROFS}, cause.FolderReadOnly.Row().Fix},
		"a full disk":            {fmt.Errorf("write the journal: %w", &fs.PathError{Op: "write", Path: "/store/journal.json", Err: syscall.ENOSPC}), cause.NoSpace.Row().Fix},
		"a quota":                {syscall.EDQUOT, cause.NoSpace.Row().Fix},
		"an error with a fix":    {fmt.Errorf("load: %w", errors.Join(own, syscall.EPERM)), "own"},
		"an error without a fix": {errors.New("broken"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := AsCause("store", tc.err); got.Fix != tc.fix {
				t.Errorf("AsCause(%v) has the fix %q, want %q", tc.err, got.Fix, tc.fix)
			}
		})
	}
}
