package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2" //nolint:depguard // client-go logs there, and gets our log

	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/pkg/command"
	"outrigger.dev/pkg/kube"
)

// maxRequest is the most bytes of a request.
const maxRequest = 64 << 10

// defaultRetry is that of kubectl drain.
const defaultRetry = 5 * time.Second

// Main runs the program, and returns its exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	code := eviction.ExitUsage // of the command line
	program := &command.Command{
		Name: eviction.Program, Usage: "evict the pods of a node that hold GPUs",
		Description: "Reads a request as JSON from standard input, and writes what happens to each pod as a line of JSON.\n" +
			"The driver loader starts it when it upgrades the driver of a node.\n" +
			`Example: echo '{"mode":"gpu-pods","node":"node1","timeoutSeconds":300}' | driver-loader-drain` + "\n" +
			"Exit codes: 0 no such pod is left, 1 a failure that may pass, 2 a wrong request, 3 the time is over, 4 a pod may not be evicted.",
		Flags: []command.Flag{
			&command.PathFlag{Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"}, Usage: "file that says how to reach the API server; without one, the service account of the pod is used"},
			&command.DurationFlag{Name: "retry-every", EnvVars: []string{"RETRY_EVERY"}, Value: defaultRetry, Usage: "time after which a rejected eviction is tried again"},
		},
		Action: func(c *command.Context) error {
			var err error
			s := server{kubeconfig: c.Path("kubeconfig"), retry: c.Duration("retry-every"), stdin: stdin, stdout: stdout, stderr: stderr}
			code, err = s.serve(ctx)
			return err
		},
	}
	err := command.Run(ctx, program, args, stdout)
	switch {
	case err == nil && code == eviction.ExitUsage:
		return eviction.ExitDone // --help and --version
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", eviction.Program, err)
	}
	return code
}

// server handles one request.
type server struct {
	kubeconfig     string
	retry          time.Duration
	stdin          io.Reader
	stdout, stderr io.Writer
}

// serve returns the exit code.
func (s server) serve(ctx context.Context) (int, error) {
	var r eviction.Request
	d := json.NewDecoder(io.LimitReader(s.stdin, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return eviction.ExitUsage, fmt.Errorf("read the request from standard input: %w", err)
	}
	if err := check(r); err != nil {
		return eviction.ExitUsage, fmt.Errorf("reject the request: %w", err)
	}
	log := slog.New(slog.NewTextHandler(s.stderr, nil))
	klog.SetSlogLogger(log.With("library", "client-go"))
	client, err := connect(s.kubeconfig)
	if err != nil {
		return eviction.ExitUsage, err
	}
	err = (&drainer{client: client, request: r, report: newReporter(s.stdout), retry: s.retry}).run(ctx)
	switch {
	case err == nil:
		return eviction.ExitDone, nil
	case errors.Is(err, errTimeout):
		return eviction.ExitTimeout, err
	case errors.Is(err, errRefused):
		return eviction.ExitRefused, err
	default:
		return eviction.ExitTemporary, err
	}
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	rc, err := kube.Config{Kubeconfig: kubeconfig, Agent: eviction.Program}.REST()
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return client, nil
}
