package cluster

import (
	"fmt"
	"net/http"
	"net/url"

	"outrigger.dev/test/cluster/internal/kubeapi"
)

// HTTP returns a client of the API server. Its requests need only a path. It authenticates with the
// token. If the token is empty, it uses the administrator's certificate. The caller closes its idle
// connections.
func (c *Cluster) HTTP(token string) (*http.Client, error) {
	server, credentials, err := kubeapi.Read(c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	if token != "" {
		credentials.Certificates = nil
	}
	base, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("read URL of the API server: %w", err)
	}
	return &http.Client{Transport: apiTransport{base: base, token: token, next: &http.Transport{TLSClientConfig: credentials}}}, nil
}

// apiTransport sends requests to one server.
type apiTransport struct {
	base  *url.URL
	token string
	next  *http.Transport
}

// RoundTrip sends a copy of the request to the server.
func (t apiTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = t.base.Scheme, t.base.Host, ""
	if t.token != "" {
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections implements the method that http.Client calls.
func (t apiTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }
