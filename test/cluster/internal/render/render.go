// Package render derives the configuration of a node's components. It is pure: it turns a
// plan into files and command lines.
package render

import (
	"bytes"
	"crypto/md5"
	"embed"
	"fmt"
	"path/filepath"
	"text/template"

	"outrigger.dev/test/cluster/internal/plan"
)

//go:embed templates
var templates embed.FS

// Options are the inputs of a node's files in addition to the plan.
type Options struct {
	// Components is the folder of the components' binaries.
	Components string
	// Restart is the command that restarts a component of the node, without its name.
	Restart string
	// PauseImage is the name of the image of pod sandboxes.
	PauseImage string
	// Cgroup is the path of the node's cgroup, as the kernel reports it.
	Cgroup string
	// AuditLog is the path of the API server's audit log on the node.
	AuditLog string
	// RestrictOOMScore is set if the machine lacks CAP_SYS_RESOURCE.
	RestrictOOMScore bool
}

// Programs is the folder on a node for the programs among its files. It is the first folder in the
// search path of services.
const Programs = "/usr/local/sbin"

// Files returns the configuration files of a node, without keys and certificates, by path
// on the node.
func Files(p plan.Plan, n plan.Node, o Options) (map[string][]byte, error) {
	data := struct {
		Options
		Plan plan.Plan
		Node plan.Node
	}{o, p, n}
	files := map[string][]byte{
		"/etc/hostname": []byte(n.Name + "\n"),
		// Kubernetes needs a different machine ID on each node.
		"/etc/machine-id": fmt.Appendf(nil, "%x\n", md5.Sum([]byte(n.Name))),
	}
	names := map[string]string{
		"/etc/hosts":                      "hosts",
		"/etc/cni/net.d/10-pods.conflist": "cni.conflist",
		"/etc/kubernetes/kubelet.yaml":    "kubelet.yaml",
		"/etc/kubernetes/kube-proxy.yaml": "kube-proxy.yaml",
		Programs + "/systemctl":           "systemctl",
	}
	switch n.Engine {
	case plan.Containerd:
		names["/etc/containerd/config.toml"] = "containerd.toml"
	case plan.CRIO:
		names["/etc/crio/crio.conf.d/10-crio.conf"] = "crio.conf"
		names["/etc/containers/policy.json"] = "policy.json"
		names[Programs+"/runc"] = "runc"
	}
	if n.ControlPlane {
		names[auditPolicy] = "audit.yaml"
	}
	for path, name := range names {
		b, err := execute(name, data)
		if err != nil {
			return nil, err
		}
		files[path] = b
	}
	return files, nil
}

// execute renders one template.
func execute(name string, data any) ([]byte, error) {
	t, err := template.ParseFS(templates, filepath.Join("templates", name+".tmpl"))
	if err != nil {
		return nil, fmt.Errorf("parse template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Option("missingkey=error").Execute(&b, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return b.Bytes(), nil
}
