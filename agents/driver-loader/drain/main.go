package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"

	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/text"
)

// maxRequest is the most bytes of a request.
const maxRequest = 64 << 10

// defaultRetry is that of kubectl drain.
const defaultRetry = 5 * time.Second

// Main runs the program, and returns its exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := server{stdin: stdin, stdout: stdout, stderr: stderr}
	err := cmdline.Run(ctx, &cli.App{
		Name: eviction.Program, Usage: "evict the pods of a node that hold GPUs",
		Description: "Reads a request as JSON from standard input, and writes what happens to each pod as a line of JSON.\n" +
			"The driver loader starts it when it upgrades the driver of a node.\n" +
			`Example: echo '{"mode":"gpu-pods","node":"node1","timeoutSeconds":300}' | driver-loader-drain` + "\n" +
			"Exit codes: 0 no such pod is left, 1 a failure that may pass, 2 a wrong request, 3 the time is over, 4 a pod may not be evicted.",
		Writer: stdout, ErrWriter: stderr,
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"}, Destination: &s.kubeconfig, Usage: "file that says how to reach the API server; without one, the service account of the pod is used"},
			&cli.DurationFlag{Name: "retry-every", EnvVars: []string{"RETRY_EVERY"}, Destination: &s.retry, Value: defaultRetry, Usage: "time after which a rejected eviction is tried again"},
		},
		Action: func(c *cli.Context) error { return s.serve(c.Context) },
	}, args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", eviction.Program, text.OneLine(err))
	}
	return cmdline.Code(err, eviction.ExitUsage)
}

// server handles one request.
type server struct {
	kubeconfig     string
	retry          time.Duration
	stdin          io.Reader
	stdout, stderr io.Writer
}

// serve returns an error with its exit code.
func (s server) serve(ctx context.Context) error {
	var r eviction.Request
	d := json.NewDecoder(io.LimitReader(s.stdin, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return cmdline.Usagef("read the request from standard input: %w", err)
	}
	if err := check(r); err != nil {
		return cmdline.Usagef("reject the request: %w", err)
	}
	client, err := connect(s.kubeconfig)
	if err != nil {
		return cli.Exit(err, eviction.ExitUsage)
	}
	err = (&drainer{client: client, request: r, report: newReporter(s.stdout), retry: s.retry}).run(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTimeout):
		return cli.Exit(err, eviction.ExitTimeout)
	case errors.Is(err, errRefused):
		return cli.Exit(err, eviction.ExitRefused)
	default:
		return cli.Exit(err, eviction.ExitTemporary)
	}
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	rc, err := kube.Config{Kubeconfig: kubeconfig, Agent: eviction.Program}.REST()
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	// The steps have pauses of their own. A limit fails a request that it would delay beyond
	// the time-out of the run, before that time-out is over.
	rc.QPS = -1
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return client, nil
}
