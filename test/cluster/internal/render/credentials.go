package render

import (
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"

	"outrigger.dev/test/cluster/internal/pki"
	"outrigger.dev/test/cluster/internal/plan"
)

// Credentials creates the keys, certificates and kubeconfigs of a cluster.
type Credentials struct {
	plan                          plan.Plan
	authority                     *pki.Authority
	signingPublic, signingPrivate []byte
}

// NewCredentials creates the authority of a cluster.
func NewCredentials(p plan.Plan) (*Credentials, error) {
	authority, err := pki.NewAuthority("outrigger-cluster")
	if err != nil {
		return nil, err
	}
	public, private, err := pki.NewSigningKey()
	if err != nil {
		return nil, err
	}
	return &Credentials{plan: p, authority: authority, signingPublic: public, signingPrivate: private}, nil
}

// Admin returns the kubeconfig of the cluster's administrator.
func (c *Credentials) Admin() ([]byte, error) {
	return c.kubeconfig(pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}})
}

// Node returns the files with credentials of a node, by path on the node.
func (c *Credentials) Node(n plan.Node) (map[string][]byte, error) {
	files := map[string][]byte{"/etc/kubernetes/pki/ca.crt": c.authority.Cert}
	kubelet := pkix.Name{CommonName: "system:node:" + n.Name, Organization: []string{"system:nodes"}}
	users := map[string]pkix.Name{
		"kubelet":    kubelet,
		"kube-proxy": {CommonName: "system:kube-proxy"},
	}
	if err := c.issue(files, "kubelet", kubelet, n.Name, n.IP.String()); err != nil {
		return nil, err
	}
	if n.ControlPlane {
		users["controller-manager"] = pkix.Name{CommonName: "system:kube-controller-manager"}
		users["scheduler"] = pkix.Name{CommonName: "system:kube-scheduler"}
		if c.plan.Shape.Kwok {
			users["kwok"] = pkix.Name{CommonName: "kwok", Organization: []string{"system:masters"}}
		}
		if err := c.controlPlane(files, n); err != nil {
			return nil, err
		}
	}
	for name, user := range users {
		b, err := c.kubeconfig(user)
		if err != nil {
			return nil, err
		}
		files["/etc/kubernetes/"+name+".kubeconfig"] = b
	}
	return files, nil
}

// controlPlane adds the files that only the first node has.
func (c *Credentials) controlPlane(files map[string][]byte, n plan.Node) error {
	files["/etc/kubernetes/pki/ca.key"] = c.authority.Key
	files["/etc/kubernetes/pki/service-account.pub"] = c.signingPublic
	files["/etc/kubernetes/pki/service-account.key"] = c.signingPrivate
	client := pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}
	if err := c.issue(files, "apiserver-kubelet-client", client); err != nil {
		return err
	}
	return c.issue(files, "apiserver", pkix.Name{CommonName: "kube-apiserver"},
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		n.Name, "127.0.0.1", n.IP.String(), c.plan.APIServiceIP.String())
}

// issue adds a certificate and its key to files, as NAME.crt and NAME.key.
func (c *Credentials) issue(files map[string][]byte, name string, subject pkix.Name, hosts ...string) error {
	pair, err := c.authority.Issue(subject, hosts...)
	if err != nil {
		return fmt.Errorf("issue %s: %w", name, err)
	}
	files["/etc/kubernetes/pki/"+name+".crt"] = pair.Cert
	files["/etc/kubernetes/pki/"+name+".key"] = pair.Key
	return nil
}

// kubeconfig returns the kubeconfig of a user.
func (c *Credentials) kubeconfig(user pkix.Name) ([]byte, error) {
	pair, err := c.authority.Issue(user)
	if err != nil {
		return nil, fmt.Errorf("issue certificate of %s: %w", user.CommonName, err)
	}
	encode := base64.StdEncoding.EncodeToString
	return execute("kubeconfig", map[string]string{
		"Server": c.plan.APIServer(),
		"CA":     encode(c.authority.Cert),
		"User":   user.CommonName,
		"Cert":   encode(pair.Cert),
		"Key":    encode(pair.Key),
	})
}
