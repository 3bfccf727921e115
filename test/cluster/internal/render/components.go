package render

import (
	"path/filepath"
	"slices"

	"outrigger.dev/test/cluster/internal/plan"
)

// Component is one supervised program of a node.
type Component struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
}

// The names of the components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	Proxy             = "kube-proxy"
	Kwok              = "kwok"
)

// Audit is the name of the API server's audit log among the logs of the first node.
const Audit = "audit"

// auditPolicy is the file that selects the content of the audit log.
const auditPolicy = "/etc/kubernetes/audit.yaml"

// Components returns the programs that a node runs.
func Components(p plan.Plan, n plan.Node, o Options) []Component {
	if p.Shape.Kwok {
		return append(controlPlane(p, n, o), kwok(o))
	}
	components := []Component{engine(n, o)}
	if n.ControlPlane {
		components = append(components, controlPlane(p, n, o)...)
	}
	kubelet := kubernetes(o, Kubelet,
		"--config", "/etc/kubernetes/kubelet.yaml",
		"--kubeconfig", "/etc/kubernetes/kubelet.kubeconfig",
		"--hostname-override", n.Name,
		"--node-ip", n.IP.String(),
		"--v", "2")
	if n.GPUs > 0 {
		// In other clusters, Node Feature Discovery sets this label. Few tests run it.
		kubelet.Args = append(kubelet.Args, "--node-labels", "feature.node.kubernetes.io/pci-10de.present=true")
	}
	return append(components, kubelet, kubernetes(o, Proxy, "--config", "/etc/kubernetes/kube-proxy.yaml"))
}

// engine returns the container engine of a node.
func engine(n plan.Node, o Options) Component {
	args := []string{filepath.Join(o.Components, string(n.Engine))}
	if n.Engine == plan.CRIO {
		// The search path of systemd's services. Programs is its first folder.
		args = slices.Insert(args, 0, "/usr/bin/env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	} else {
		args = append(args, "--config", "/etc/containerd/config.toml")
	}
	return Component{Name: string(n.Engine), Args: args}
}

// controlPlane returns the programs that only the first node runs.
func controlPlane(p plan.Plan, n plan.Node, o Options) []Component {
	const pki = "/etc/kubernetes/pki/"
	components := []Component{
		kubernetes(o, Etcd,
			"--data-dir", "/var/lib/etcd",
			"--listen-client-urls", "http://127.0.0.1:2379",
			"--advertise-client-urls", "http://127.0.0.1:2379",
			"--listen-peer-urls", "http://127.0.0.1:2380",
			"--initial-advertise-peer-urls", "http://127.0.0.1:2380",
			"--initial-cluster", "default=http://127.0.0.1:2380",
			"--unsafe-no-fsync",
			"--log-level", "warn"),
		kubernetes(o, APIServer,
			"--etcd-servers", "http://127.0.0.1:2379",
			"--service-cluster-ip-range", p.ServiceCIDR.String(),
			"--advertise-address", n.IP.String(),
			"--bind-address", "0.0.0.0",
			"--secure-port", "6443",
			"--client-ca-file", pki+"ca.crt",
			"--tls-cert-file", pki+"apiserver.crt",
			"--tls-private-key-file", pki+"apiserver.key",
			"--service-account-key-file", pki+"service-account.pub",
			"--service-account-signing-key-file", pki+"service-account.key",
			"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
			"--authorization-mode", "Node,RBAC",
			"--enable-admission-plugins", "NodeRestriction",
			"--allow-privileged=true",
			"--kubelet-client-certificate", pki+"apiserver-kubelet-client.crt",
			"--kubelet-client-key", pki+"apiserver-kubelet-client.key",
			"--kubelet-certificate-authority", pki+"ca.crt",
			"--kubelet-preferred-address-types", "InternalIP",
			"--audit-policy-file", auditPolicy,
			"--audit-log-path", o.AuditLog,
			"--profiling=false"),
		kubernetes(o, ControllerManager,
			"--kubeconfig", "/etc/kubernetes/controller-manager.kubeconfig",
			"--use-service-account-credentials",
			"--root-ca-file", pki+"ca.crt",
			"--service-account-private-key-file", pki+"service-account.key",
			"--cluster-signing-cert-file", pki+"ca.crt",
			"--cluster-signing-key-file", pki+"ca.key",
			"--leader-elect=false",
			// Each controller requests a token for its account at the start. At the default rate,
			// 20 requests a second, that takes five seconds.
			"--kube-api-qps", "1000", "--kube-api-burst", "2000",
			"--bind-address", "127.0.0.1"),
		kubernetes(o, Scheduler,
			"--kubeconfig", "/etc/kubernetes/scheduler.kubeconfig",
			"--leader-elect=false",
			"--bind-address", "127.0.0.1"),
	}
	if p.Shape.Kwok {
		for i := range components {
			components[i].Args = append(components[i].Args, manyNodes(components[i].Name)...)
		}
	}
	return components
}

// manyNodes returns the flags that a component needs to serve thousands of nodes: higher request
// rates of its client, and a longer grace period for heartbeats.
func manyNodes(component string) []string {
	switch component {
	case ControllerManager:
		return []string{"--node-monitor-grace-period", "10m"}
	case Scheduler:
		return []string{"--kube-api-qps", "1000", "--kube-api-burst", "2000"}
	}
	return nil
}

// kwok returns the program that plays the kubelets of Nodes with an annotation.
func kwok(o Options) Component {
	return Component{Name: Kwok, Args: []string{
		filepath.Join(o.Components, Kwok),
		"--kubeconfig", "/etc/kubernetes/kwok.kubeconfig",
		"--config", filepath.Join(o.Components, "kwok-stages.yaml"),
		"--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake",
		"--node-lease-duration-seconds", "240",
		"--v", "WARN",
	}}
}

// kubernetes returns one part of the binary that contains all of Kubernetes.
func kubernetes(o Options, part string, args ...string) Component {
	return Component{Name: part, Args: append([]string{filepath.Join(o.Components, "kubernetes"), part}, args...)}
}
