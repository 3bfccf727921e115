package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/cluster"
)

func TestAnErrorOfTheLeaseIsLoggedOnceWithItsFix(t *testing.T) {
	leases := schema.GroupResource{Resource: "leases"}
	away := &url.Error{Op: "Get", URL: "https://a:1/x", Err: errors.New("connection refused")}
	unreachable := `level=WARN msg="cannot access the lease, retrying" lease=outrigger err="reach the API server https://a:1: connection refused; check that it runs`
	again := `level=INFO msg="can access the lease again" lease=outrigger`
	for name, tc := range map[string]struct{ errs, want []any }{
		"no error":                   {[]any{nil, nil}, nil},
		"the answers of an election": {[]any{apierrors.NewNotFound(leases, Name), apierrors.NewAlreadyExists(leases, Name), apierrors.NewConflict(leases, Name, nil)}, nil},
		"the end of the process":     {[]any{context.Canceled}, nil},
		"the same error again":       {[]any{away, away, away}, []any{unreachable}},
		"an error that ends":         {[]any{away, away, nil, nil}, []any{unreachable, again}},
		"an error that comes again":  {[]any{away, nil, away}, []any{unreachable, again, unreachable}},
		"another error": {
			[]any{away, apierrors.NewForbidden(leases, Name, errors.New("no role"))},
			[]any{unreachable, "use an account with the ClusterRole of the chart"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			m := &monitor{log: slog.New(slog.NewTextHandler(&out, nil)), explain: func(err error) error {
				return cluster.Explain(&rest.Config{Host: "https://a:1"}, err)
			}}
			for _, e := range tc.errs {
				err, _ := e.(error)
				if got := m.report(err); !errors.Is(got, err) {
					t.Errorf("report(%v) returned %v", err, got)
				}
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(tc.want) == 0 && out.Len() == 0 {
				return
			}
			if len(lines) != len(tc.want) {
				t.Fatalf("got\n%s\nwant %d lines", out.String(), len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(lines[i], fmt.Sprint(want)) {
					t.Errorf("line %d is %s, want %s", i, lines[i], want)
				}
			}
		})
	}
}
