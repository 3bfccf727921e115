// Package kubeapi sends the few requests to the API server that the start of a cluster
// needs. It uses only the standard library.
package kubeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// requestTimeout is the time limit of a request. It is long for a server on the same machine.
const requestTimeout = 5 * time.Second

// ErrNotReady is returned by Ready, NodeReady and DefaultAccount until they succeed.
var ErrNotReady = errors.New("not ready")

// Client reads from an API server.
type Client struct {
	server string
	http   http.Client
}

// kubeconfig is the part of the format that the cluster writes.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     string `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Cert string `json:"client-certificate-data"`
			Key  string `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

// New returns a client with the credentials of a kubeconfig with embedded data.
func New(path string) (*Client, error) {
	server, credentials, err := Read(path)
	if err != nil {
		return nil, err
	}
	c := &Client{server: server}
	c.http.Timeout = requestTimeout
	c.http.Transport = &http.Transport{
		// An idle connection would outlive the client.
		DisableKeepAlives: true,
		TLSClientConfig:   credentials,
	}
	return c, nil
}

// Read returns the URL of the API server in a kubeconfig with embedded data, with the
// certificates of the server's authority and of the user.
func Read(path string) (server string, credentials *tls.Config, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(b, &k); err != nil {
		return "", nil, fmt.Errorf("decode kubeconfig %s: %w", path, err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return "", nil, fmt.Errorf("decode kubeconfig %s: want one cluster and one user", path)
	}
	var parts [3][]byte
	for i, s := range []string{k.Clusters[0].Cluster.CA, k.Users[0].User.Cert, k.Users[0].User.Key} {
		if parts[i], err = base64.StdEncoding.DecodeString(s); err != nil {
			return "", nil, fmt.Errorf("decode kubeconfig %s: %w", path, err)
		}
	}
	pair, err := tls.X509KeyPair(parts[1], parts[2])
	if err != nil {
		return "", nil, fmt.Errorf("read credentials of kubeconfig %s: %w", path, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(parts[0])
	return k.Clusters[0].Cluster.Server, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// Ready returns nil once the API server is ready.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.get(ctx, "/readyz")
	return err
}

// NodeReady returns nil once the node reports that it is ready.
func (c *Client) NodeReady(ctx context.Context, name string) error {
	b, err := c.get(ctx, "/api/v1/nodes/"+name)
	if err != nil {
		return err
	}
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(b, &node); err != nil {
		return fmt.Errorf("decode node %s: %w", name, err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return fmt.Errorf("node %s: %s: %w", name, condition.Message, ErrNotReady)
	}
	return fmt.Errorf("node %s has no Ready condition: %w", name, ErrNotReady)
}

// DefaultAccount returns nil once pods can be created in the default namespace.
func (c *Client) DefaultAccount(ctx context.Context) error {
	_, err := c.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	return err
}

func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return nil, fmt.Errorf("create request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call API server: %w: %w", err, ErrNotReady)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer to %s: %w: %w", path, err, ErrNotReady)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s: %w", path, resp.Status, ErrNotReady)
	}
	return b, nil
}
