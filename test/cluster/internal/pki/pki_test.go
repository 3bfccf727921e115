package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	"outrigger.dev/test/cluster/internal/pki"
)

func TestIssue(t *testing.T) {
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "system:node:node0", Organization: []string{"system:nodes"}}
	pair, err := authority.Issue(subject, "node0", "10.99.0.2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		t.Errorf("certificate and key do not belong together: %v", err)
	}
	cert := parse(t, pair.Cert)
	if cert.Subject.String() != subject.String() {
		t.Errorf("subject = %s, want %s", cert.Subject, subject)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	for name, test := range map[string]struct {
		host  string
		usage x509.ExtKeyUsage
		valid bool
	}{
		"a server answers to its name":           {"node0", x509.ExtKeyUsageServerAuth, true},
		"a server answers to its address":        {"10.99.0.2", x509.ExtKeyUsageServerAuth, true},
		"a server answers to no other name":      {"node1", x509.ExtKeyUsageServerAuth, false},
		"a server answers to no other address":   {"10.99.0.3", x509.ExtKeyUsageServerAuth, false},
		"the same certificate serves a client":   {"", x509.ExtKeyUsageClientAuth, true},
		"the certificate does not sign programs": {"", x509.ExtKeyUsageCodeSigning, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if (err == nil) != test.valid {
				t.Errorf("Verify() = %v, want valid %t", err, test.valid)
			}
		})
	}
}

func TestAuthoritiesDoNotKnowEachOther(t *testing.T) {
	ours, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := other.Issue(pkix.Name{CommonName: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ours.Cert)
	if _, err := parse(t, pair.Cert).Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("a certificate of another cluster is accepted")
	}
}

func parse(t *testing.T, b []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatalf("no PEM in %q", b)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
