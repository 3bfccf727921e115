package read

import (
	"strings"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/facts"
)

// trimMeta removes what no diagnosis needs. Annotations of other programs can have secrets, such as the last
// applied configuration of kubectl.
func trimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	labels := make(map[string]string, len(m.Labels))
	for key, value := range m.Labels {
		labels[shared(key)] = shared(value)
	}
	m.Labels = labels
	for key := range m.Annotations {
		domain, _, _ := strings.Cut(key, "/")
		if domain != "nvidia.com" && domain != "outrigger.dev" {
			delete(m.Annotations, key)
		}
	}
}

// shared returns a text that shares its memory with equal texts: thousands of nodes and pods have the same labels.
func shared(s string) string { return unique.Make(s).Value() }

func trimNode(n *corev1.Node) *corev1.Node {
	trimMeta(&n.ObjectMeta)
	n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached, n.Status.Config = nil, nil, nil, nil
	return n
}

func trimDaemonSet(d *appsv1.DaemonSet) *appsv1.DaemonSet {
	trimMeta(&d.ObjectMeta)
	trimMeta(&d.Spec.Template.ObjectMeta)
	trimSpec(&d.Spec.Template.Spec)
	return d
}

func trimPod(p *corev1.Pod) *corev1.Pod {
	trimMeta(&p.ObjectMeta)
	trimSpec(&p.Spec)
	return p
}

// trimSpec removes the values of environment variables and the parts that can have secrets.
func trimSpec(s *corev1.PodSpec) {
	s.Volumes, s.EphemeralContainers, s.ImagePullSecrets = nil, nil, nil
	for _, containers := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			c := &containers[i]
			c.VolumeMounts, c.Lifecycle, c.Args, c.EnvFrom = nil, nil, nil, nil
			var env []corev1.EnvVar
			for _, v := range c.Env {
				if v.Name == facts.VisibleDevices {
					env = append(env, v)
				}
			}
			c.Env = env
		}
	}
}
