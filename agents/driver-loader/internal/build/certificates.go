package build

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// certificates returns the path of a file with the certificates of the image and of the operator,
// or "" if the operator has configured none. It does not change the image, unlike
// update-ca-certificates and update-ca-trust.
func (r *Repositories) certificates(work string) (string, error) {
	own, err := r.ownCertificates()
	if err != nil || len(own) == 0 {
		return "", err
	}
	all := own
	for _, bundle := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} {
		data, err := hostfs.ReadFile(bundle, 8<<20)
		if err == nil {
			all = append(append(data, '\n'), own...)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	path := filepath.Join(work, "certificates.pem")
	return path, staging.Explain(work, os.WriteFile(path, all, 0o644)) //nolint:gosec // apt reads the file as another user
}

// ownCertificates returns the certificates in the folders where driver.certConfig is mounted.
// These are the folders that the distributions use.
func (r *Repositories) ownCertificates() ([]byte, error) {
	folders := r.Certificates
	if folders == nil {
		folders = []string{"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"}
	}
	var all []byte
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			data, err := certificate(filepath.Join(folder, e.Name()))
			if err != nil {
				return nil, err
			}
			all = append(all, data...)
		}
	}
	return all, nil
}

// certificate returns only the certificates of a PEM file.
func certificate(path string) ([]byte, error) {
	data, err := hostfs.ReadFile(path, maxPEM)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, badCertificate(path, err)
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
	if all.Len() == 0 {
		return nil, badCertificate(path, errors.New("is not a PEM file"))
	}
	return all.Bytes(), nil
}

func badCertificate(path string, err error) error {
	return cause.Cause{Code: cause.RepositoryUnavailable, Subject: path, Text: fmt.Sprintf("is not a certificate: %v", err), Fix: "correct driver.certConfig"}
}
