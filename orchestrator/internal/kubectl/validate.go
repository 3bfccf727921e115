package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/revalidate"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/validation"
	"outrigger.dev/pkg/cmdline"
)

const (
	// validateTimeout is the default time limit of the command validate.
	validateTimeout = 15 * time.Minute
	// lookEvery is the delay between two reads of the results.
	lookEvery = time.Second
	// endTimeout is the time limit for the removal of the request, also after an interruption.
	endTimeout = 10 * time.Second
)

func (s *settings) validateCommand() *cli.Command {
	var request revalidate.Request
	var timeout time.Duration
	return &cli.Command{
		Name: "validate", ArgsUsage: "[NODE…]",
		Usage: "prove that GPUs compute: repeat the validations on nodes, and show the results",
		Description: "The orchestrator runs the validations. Their results are in the status of the ClusterPolicy.\n" +
			"Without a NODE, the values of the chart validator choose the nodes.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all-nodes", Aliases: []string{"A"}, EnvVars: []string{"OUTRIGGER_ALL_NODES"}, Destination: &request.All, Usage: "validate all nodes with a GPU"},
			&cli.BoolFlag{Name: "all-gpus", EnvVars: []string{"OUTRIGGER_ALL_GPUS"}, Destination: &request.AllGPUs, Usage: "use each GPU that a pod sees, instead of one"},
			&cli.BoolFlag{
				Name: "copies", EnvVars: []string{"OUTRIGGER_COPIES"}, Destination: &request.Copies,
				Usage: "also copy between the host and the GPU, and between all GPUs with --all-gpus; check the copies, and print their rates",
			},
			cmdline.Positive(&cli.DurationFlag{Name: "timeout", EnvVars: []string{"OUTRIGGER_TIMEOUT"}, Value: validateTimeout, Destination: &timeout, Usage: "`TIME` after which the command fails"}),
		},
		Action: func(c *cli.Context) error {
			request.Nodes = c.Args().Slice()
			if request.All && len(request.Nodes) > 0 {
				return errors.New("--all-nodes and nodes are both given: remove one of them")
			}
			client, err := s.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context, timeout)
			defer cancel()
			result, err := runValidations(ctx, client, request, table.NewProgress(table.For(c.App.ErrWriter)))
			if err != nil && len(result.Validations) == 0 {
				return err
			}
			printErr := table.Print(table.For(c.App.Writer), s.output, result, func(o table.Out) error { return printValidations(o, result) })
			return errors.Join(printErr, err, verdict(result))
		},
	}
}

// verdict returns the exit code for a result.
func verdict(r revalidate.Result) error {
	switch {
	case r.Failed() > 0:
		return cli.Exit("", doctor.ExitFails)
	case r.Skipped() > 0:
		return cli.Exit("", doctor.ExitWaits)
	}
	return nil
}

// runValidations repeats the validations, and waits until they end. The result may be incomplete if it returns an error.
func runValidations(ctx context.Context, client *cluster.Client, request revalidate.Request, progress *table.Progress) (result revalidate.Result, err error) {
	defer progress.End()
	progress.Step("asks the orchestrator for validations")
	run, err := revalidate.Start(ctx, client, request)
	if err != nil {
		return result, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		err = errors.Join(err, run.End(ctx))
	}()
	for {
		now, ended, err := run.Look(ctx)
		if err == nil {
			result = now
		}
		if err == nil && ended {
			run.AddLogs(ctx, &result)
			return result, nil
		}
		if err == nil {
			progress.Step("%s", doing(result))
		}
		select {
		case <-ctx.Done():
			return result, errors.Join(fmt.Errorf("wait for the validations: %w; kubectl outrigger doctor says what they wait for", ctx.Err()), err)
		case <-time.After(lookEvery):
		}
	}
}

// doing returns what the validations do: "nvidia-driver-validation: 3 of 8 pods have ended".
func doing(r revalidate.Result) string {
	for _, v := range r.Validations {
		if v.State != validation.Running {
			continue
		}
		ended := len(slices.DeleteFunc(slices.Clone(v.Pods), func(p revalidate.Pod) bool { return p.State == validation.Running }))
		if v.Message != "" {
			return fmt.Sprintf("%s: %d of %d pods have ended: %s", v.Name, ended, len(v.Pods), v.Message)
		}
		return fmt.Sprintf("%s: %d of %d pods have ended", v.Name, ended, len(v.Pods))
	}
	return "waits for the orchestrator"
}

func printValidations(o table.Out, r revalidate.Result) error {
	t := table.Table{Columns: []table.Column{{Name: "VALIDATION"}, {Name: "NODE", Min: 12}, {Name: "RESULT"}, {Name: "GPUS", Drop: 1}, {Name: "MESSAGE", Min: 20}}}
	tones := map[string]table.Tone{validation.Passed: table.Good, validation.Failed: table.Bad, validation.Skipped: table.Warn}
	for _, v := range r.Validations {
		for _, p := range v.Pods {
			gpus := ""
			if p.GPUs > 0 {
				gpus = fmt.Sprint(p.GPUs)
			}
			t.Add(v.Name, p.Node, table.Cell{Text: p.State, Tone: tones[p.State]}, gpus, p.Message)
		}
		if len(v.Pods) == 0 {
			t.Add(v.Name, "", table.Cell{Text: v.State, Tone: tones[v.State]}, "", v.Message)
		}
	}
	if err := t.Write(o); err != nil {
		return err
	}
	for _, v := range r.Validations {
		for _, p := range v.Pods {
			if len(p.Copies) == 0 {
				continue
			}
			fmt.Fprintf(o, "\nCopies on %s, in GB/s (%s)\n", p.Node, v.Name)
			for _, line := range p.Copies {
				fmt.Fprintf(o, "  %s\n", line)
			}
		}
	}
	return nil
}
