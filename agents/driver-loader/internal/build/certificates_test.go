package build_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/pkg/cause"
)

// mirror serves a repository over HTTPS, with a certificate that nobody knows, and returns
// its address and a folder with the certificate.
func mirror(t *testing.T, dir string) (address, trusted string) {
	t.Helper()
	server := httptest.NewTLSServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	trusted = t.TempDir()
	write(t, trusted+"/mirror.crt", "a comment\n"+string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return server.URL + "/", trusted
}

func TestAMirrorHasACertificateOfTheOperator(t *testing.T) {
	for manager, test := range map[string]struct {
		repository func(*testing.T) string
		etc        func(*testing.T, string) string
		release    string
	}{
		"apt": {repository, etc, wanted},
		"dnf": {rpmRepository, yumEtc, redHat},
	} {
		t.Run(manager, func(t *testing.T) {
			address, trusted := mirror(t, test.repository(t))
			r := build.Repositories{Etc: test.etc(t, address), Manager: manager, Timeout: 30 * time.Second}
			to := t.TempDir() + "/headers/" + test.release
			if err := r.Fetch(t.Context(), test.release, to); code(err) != cause.RepositoryUnavailable || !strings.Contains(err.Error(), "ertificate") {
				t.Errorf("without the certificate: %v", err)
			}
			r.Certificates = []string{trusted, t.TempDir(), "/not/there"}
			assert.NilError(t, r.Fetch(t.Context(), test.release, to))
			write(t, trusted+"/other.crt", "no certificate\n")
			if err := r.Fetch(t.Context(), test.release, to); code(err) != cause.RepositoryUnavailable || !strings.Contains(err.Error(), "other.crt: is not a certificate") {
				t.Errorf("with a file that is none: %v", err)
			}
		})
	}
}
