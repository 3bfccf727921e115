package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/reconcile"
)

func TestStepsOfLoopsAreCounted(t *testing.T) {
	app := testApp()
	create := app.New
	app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		a, err := create(c, log)
		failed := false
		loop := reconcile.New(reconcile.Config{Name: "labels", Log: log, Step: func(context.Context) (reconcile.Result, error) {
			if failed {
				return reconcile.Result{}, nil
			}
			failed = true
			return reconcile.Result{}, errors.New("no space left on device")
		}})
		a.Parts = append(a.Parts, agent.Part{Name: "labels", Run: loop.Run})
		return a, err
	}
	url, stop := serveApp(t, app)
	defer stop()
	agenttest.Poll(t, "both steps are counted", func() bool {
		_, body := fetch(t, url+"/metrics")
		return strings.Contains(body, `outrigger_test_agent_reconcile_total{loop="labels",result="error"} 1`) &&
			strings.Contains(body, `outrigger_test_agent_reconcile_total{loop="labels",result="ok"} 1`) &&
			strings.Contains(body, `outrigger_test_agent_reconcile_duration_seconds_count{loop="labels"} 2`)
	})
}
