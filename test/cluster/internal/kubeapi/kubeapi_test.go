package kubeapi_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/internal/kubeapi"
	"outrigger.dev/test/cluster/internal/pki"
)

// serve runs a TLS server that admits only clients of its authority, and returns the
// path of a kubeconfig for it.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Issue(pkix.Name{CommonName: "server"}, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Issue(pkix.Name{CommonName: "client"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	encode := base64.StdEncoding.EncodeToString
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("clusters: [{cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{user: {client-certificate-data: %s, client-key-data: %s}}]\n",
		s.URL, encode(authority.Cert), encode(client.Cert), encode(client.Key))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNodeReady(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		body string
		// want is part of the error; empty if the node is ready.
		want string
	}{
		"a node that reports ready is ready":      {200, `{"status":{"conditions":[{"type":"DiskPressure","status":"False"},{"type":"Ready","status":"True"}]}}`, ""},
		"a node that is not ready reports why":    {200, `{"status":{"conditions":[{"type":"Ready","status":"False","message":"network is missing"}]}}`, "node node0: network is missing"},
		"a node without a condition is not ready": {200, `{}`, "has no Ready condition"},
		"a missing node is not ready":             {404, `{"kind":"Status"}`, "404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /api/v1/nodes/node0", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.code)
				if _, err := w.Write([]byte(test.body)); err != nil {
					t.Error(err)
				}
			})
			c, err := kubeapi.New(serve(t, mux))
			if err != nil {
				t.Fatal(err)
			}
			err = c.NodeReady(t.Context(), "node0")
			switch {
			case test.want == "" && err != nil:
				t.Errorf("NodeReady() = %v", err)
			case test.want != "" && (!errors.Is(err, kubeapi.ErrNotReady) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("NodeReady() = %v, want %q", err, test.want)
			}
		})
	}
}

func TestReadyWithoutAServer(t *testing.T) {
	path := serve(t, http.NotFoundHandler())
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gone := strings.Replace(string(b), "https://127.0.0.1:", "https://127.0.0.1:1", 1)
	if err := os.WriteFile(path, []byte(gone), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kubeapi.New(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); !errors.Is(err, kubeapi.ErrNotReady) {
		t.Errorf("Ready() = %v", err)
	}
}
