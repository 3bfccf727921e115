package doctor

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/pkg/cause"
)

// ofUnserved returns the finding for a node whose GPUs cannot be used although nothing else says why. It needs only the
// Node and the DaemonSets, so that a diagnosis of many nodes has it too.
func (d *diagnosis) ofUnserved(n *corev1.Node) Finding {
	const (
		silent = "the kubelet offers no GPU, and the node has no condition GPUReady"
		source = "status of the Node, and DaemonSets"
	)
	var off []string
	for _, ds := range d.DaemonSets {
		if agent := facts.Agent(ds.Spec.Template.Labels); agent != facts.DevicePlugin && agent != facts.DRAPlugin {
			continue
		}
		name := ds.Namespace + "/" + ds.Name
		if taint := untolerated(n, ds.Spec.Template.Spec.Tolerations); !selects(ds, n) {
			off = append(off, "the DaemonSet "+name+" does not select the node")
		} else if taint != nil {
			off = append(off, "the DaemonSet "+name+" does not tolerate the taint "+taint.ToString())
		} else {
			return ofNode(cause.PluginNotReady, n.Name, silent+": check the pods of feature discovery and of "+name+" there", source)
		}
	}
	if d.lacks("DaemonSets", "daemonsets.yaml", "gpu_operand_ds.yaml") {
		return ofNode(cause.PluginNotReady, n.Name, silent+": check that feature discovery and the device plugin run there", source)
	}
	if len(off) == 0 {
		off = []string{"the cluster has no DaemonSet of a device plugin"}
	}
	f := ofNode(cause.AgentMissing, n.Name, silent+": "+strings.Join(off, "; "), source).at(linkPlugin)
	if d.Taken.Sub(n.CreationTimestamp.Time) < health.Patience {
		f.Severity = cause.Waits // its labels and taints may still change
	}
	return f
}

// lacks reports whether objects of a kind could not be read from the cluster, from one of the files of an archive, or because
// an archive had no room for them: "3 of 9 pods".
func (d *diagnosis) lacks(kind string, files ...string) bool {
	return slices.ContainsFunc(d.Unseen, func(u facts.Unseen) bool {
		file, is := strings.CutPrefix(u.What, "the file ")
		return u.What == kind || is && slices.Contains(files, path.Base(file)) || strings.HasSuffix(u.What, " "+kind) && strings.Trim(u.What[:1], "0123456789") == ""
	})
}
