package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/dcgm-exporter/internal/exporter"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/jobs"
	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
	"outrigger.dev/agents/dcgm-exporter/internal/processes"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/reconcile"
)

// kubernetes has the sources for the pods of GPUs. Its zero value has no sources.
type kubernetes struct {
	*kubelet
	// info and api are nil if neither labels nor UIDs of pods are served.
	info *podinfo.Pods
	api  *cluster.API
	// labels is set if labels of pods are served, and uid if UIDs are.
	labels, uid bool
	bound       *labelBound
	processes   processes.Config
}

// openKubernetes returns the sources that the flags select. It does not connect yet.
func (s *settings) openKubernetes(log *slog.Logger) (kubernetes, error) {
	k := kubernetes{
		labels: s.podLabels, uid: s.podUID, bound: newLabelBound(log),
		// The processes are in /proc, not in --proc-root, which may have only the driver's files.
		processes: processes.Config{Logs: s.podLogs},
	}
	var err error
	if k.kubelet, err = s.openKubelet(log); err != nil || k.kubelet == nil || !k.labels && !k.uid {
		return k, err
	}
	allow, err := podinfo.ParseAllow(s.podLabelAllow)
	if err != nil {
		return k, cmdline.Usagef("flag --kubernetes-pod-label-allowlist-regex: %s", err)
	}
	if err := s.cluster.Named(); err != nil {
		return k, err
	}
	if k.api, err = s.cluster.Open(name, log); err != nil {
		return k, err
	}
	k.info = podinfo.New(podinfo.Config{
		Client: k.api.Client, Node: s.cluster.NodeName, Rules: podinfo.Rules{Allow: allow, Reserved: exposition.Reserved()},
	})
	k.processes.Pods, k.kubelet.podEnded = k.info, k.info.Ended
	return k, nil
}

// connect sets the sources in the config of the exporter.
func (k kubernetes) connect(to *exporter.Config) {
	if k.kubelet == nil {
		return
	}
	to.Pods, to.Processes = k.kubelet, &k.processes
	if k.info != nil {
		to.Labels = k.labelsOf
	}
}

// collectors returns the metrics about the sources.
func (k kubernetes) collectors() []prometheus.Collector {
	out := k.kubelet.collectors()
	if k.labels && k.info != nil {
		out = append(out, k.bound)
	}
	return out
}

// labelsOf returns the labels to serve for the pod of a user.
func (k kubernetes) labelsOf(u podresources.User) []exposition.Label {
	pod, ok := k.info.Pod(u.Namespace, u.Pod)
	if !ok {
		return nil
	}
	var out []exposition.Label
	if k.labels {
		for _, l := range k.bound.apply(pod, k.client.Last().Uses) {
			out = append(out, exposition.Label(l))
		}
	}
	if k.uid && pod.UID != "" {
		out = append(out, exposition.Label{Name: "pod_uid", Value: pod.UID})
	}
	return out
}

// run follows the pods of the node until ctx ends.
func (k kubernetes) run(ctx context.Context) error {
	if k.info != nil {
		k.info.Run(ctx)
	}
	return nil
}

// failing returns why the exporter cannot watch the pods, or nil if it can.
func (k kubernetes) failing() error { return k.api.Failing() }

// jobsReader returns a function that reads the jobs of a batch system. If some cannot be read, it
// returns the others, and logs the error unless the last error was the same.
func jobsReader(dir string, log *slog.Logger) func() jobs.Jobs {
	var status reconcile.Status
	return func() jobs.Jobs {
		found, err := jobs.Read(dir)
		if status.Set(err) && err != nil {
			log.Warn("cannot read all jobs of the batch system, retrying", "folder", dir, "err", err)
		}
		return found
	}
}
