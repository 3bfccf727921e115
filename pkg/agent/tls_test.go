package agent_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/hostfs"
)

// issue writes a certificate for 127.0.0.1 with a serial number, and its key.
func issue(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test-agent"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	assert.NilError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	assert.NilError(t, err)
	assert.NilError(t, hostfs.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	assert.NilError(t, hostfs.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// serial asks for /healthz over a new connection and returns the serial number of
// the server's certificate.
func serial(t *testing.T, url string) int64 {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // the test looks at the certificate itself
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(url, "http:", "https:", 1)+"/healthz", nil)
	assert.NilError(t, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	assert.NilError(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz answers %d", resp.StatusCode)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue(t, certFile, keyFile, 1)
	url, stop := serve(t, "--tls-cert-file", certFile, "--tls-private-key-file", keyFile)
	defer stop()
	if got := serial(t, url); got != 1 {
		t.Errorf("certificate %d, want 1", got)
	}
	if code, _ := fetch(t, url+"/healthz"); code != http.StatusBadRequest {
		t.Errorf("plain HTTP answers %d, want %d", code, http.StatusBadRequest)
	}
	issue(t, certFile, keyFile, 2)
	if got := serial(t, url); got != 2 {
		t.Errorf("after a change certificate %d, want 2", got)
	}
	for what, breaks := range map[string]func() error{
		"no certificate": func() error { return hostfs.WriteFile(certFile, []byte("none"), 0o600) },
		"a named pipe":   func() error { return syscall.Mkfifo(certFile, 0o600) },
	} {
		assert.NilError(t, os.Remove(certFile))
		assert.NilError(t, breaks())
		if got := serial(t, url); got != 2 {
			t.Errorf("with %s certificate %d, want the last good one, 2", what, got)
		}
	}
	assert.NilError(t, os.Remove(certFile))
	issue(t, certFile, keyFile, 3)
	if got := serial(t, url); got != 3 {
		t.Errorf("after the repair certificate %d, want 3", got)
	}
}

func TestBadTLS(t *testing.T) {
	missing, pipe := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, syscall.Mkfifo(pipe, 0o600))
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"half a pair":    {[]string{"--tls-cert-file", missing}, 2, "flags --tls-cert-file and --tls-private-key-file: set both or neither"},
		"a missing file": {[]string{"--tls-cert-file", missing, "--tls-private-key-file", missing}, 1, "flags --tls-cert-file and --tls-private-key-file: load TLS certificate: open " + missing + ": "},
		"a named pipe":   {[]string{"--tls-cert-file", pipe, "--tls-private-key-file", pipe}, 1, "it is a named pipe"},
		"an endless key": {[]string{"--tls-cert-file", missing, "--tls-private-key-file", "/dev/zero"}, 1, "load TLS certificate: "},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := run(t, append(tc.args, "--listen=127.0.0.1:0")...)
			if code != tc.code || !strings.Contains(errs, tc.want) {
				t.Errorf("exit code %d, %q, want %d with %q", code, errs, tc.code, tc.want)
			}
		})
	}
}

func TestHTTPOptions(t *testing.T) {
	app := testApp()
	create := app.New
	served := 0
	app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		a, err := create(c, log)
		say := func(text string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
		}
		a.HTTP = agent.HTTP{
			Metrics: func(prometheus.Gatherer) http.Handler { return say("own metrics") },
			Routes:  map[string]http.Handler{"GET /": say("a page")},
			Serve: func(s *http.Server, l net.Listener) error {
				served++
				return s.Serve(l)
			},
		}
		return a, err
	}
	url, stop := serveApp(t, app)
	for path, want := range map[string]string{
		"/metrics": "own metrics", "/": "a page", "/other": "a page", "/readyz": "ok\n",
	} {
		if code, body := fetch(t, url+path); code != http.StatusOK || body != want {
			t.Errorf("%s answers %d %q, want %q", path, code, body, want)
		}
	}
	stop()
	if served != 1 {
		t.Errorf("Serve was called %d times, want once", served)
	}
}
