package read

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"outrigger.dev/orchestrator/internal/cluster"
)

const (
	// logLimit is the time limit for one log.
	logLimit = 10 * time.Second
	// logLines and logBytes limit a log.
	logLines = 2000
	logBytes = 64 << 10
)

// LogName names the log of a container. Without a container, it is the only one of the pod.
type LogName struct {
	Namespace, Pod, Container string
	// Previous means the log before the last restart of the container.
	Previous bool
}

// Log returns the last lines of a log, at most 64 KiB. It needs the verb get on pods/log.
func Log(ctx context.Context, client *cluster.Client, l LogName) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	answer, err := client.Core.Get().Namespace(l.Namespace).Resource("pods").Name(l.Pod).SubResource("log").
		Param("container", l.Container).Param("previous", strconv.FormatBool(l.Previous)).Param("tailLines", strconv.Itoa(logLines)).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("read the log of %s/%s: %w", l.Namespace, l.Pod, err)
	}
	defer answer.Close()
	end := &tail{}
	if _, err := io.Copy(end, answer); err != nil {
		return "", fmt.Errorf("read the log of %s/%s: %w", l.Namespace, l.Pod, err)
	}
	return end.String(), nil
}

// tail keeps the last logBytes bytes that are written to it.
type tail struct {
	end []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	if over := len(t.end) - logBytes; over > 0 {
		t.end, t.cut = append(t.end[:0], t.end[over:]...), true
	}
	return len(p), nil
}

// String returns complete lines.
func (t *tail) String() string {
	if _, rest, ok := bytes.Cut(t.end, []byte("\n")); ok && t.cut {
		return string(rest)
	}
	return string(t.end)
}
