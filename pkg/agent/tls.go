package agent

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/hostfs"
)

// certificate is a key pair in two files that may be replaced at any time.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	// seen identifies the content of the files at the last attempt to load them.
	seen string
}

// newCertificate returns the certificate that the flags name, nil without flags.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	t := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	switch {
	case t.certFile == "" && t.keyFile == "":
		return nil, nil //nolint:nilnil // without a certificate the agent serves HTTP
	case t.certFile == "" || t.keyFile == "":
		return nil, cmdline.Usagef("flags --tls-cert-file and --tls-private-key-file: set both or neither")
	}
	t.seen = t.identify()
	var err error
	if t.pair, err = t.load(); err != nil {
		return nil, fmt.Errorf("flags --tls-cert-file and --tls-private-key-file: load TLS certificate: %w", err)
	}
	return t, nil
}

// maxPEM is the largest size of a file with a certificate chain or a key. A Secret has the same
// limit.
const maxPEM = 1 << 20

// load returns the key pair that is in the files now.
func (t *certificate) load() (*tls.Certificate, error) {
	cert, err := hostfs.ReadFile(t.certFile, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := hostfs.ReadFile(t.keyFile, maxPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read %s, %s: %w", t.certFile, t.keyFile, err)
	}
	return &pair, nil
}

// listener returns l with TLS, or l itself if the certificate is nil.
func (t *certificate) listener(l net.Listener) net.Listener {
	if t == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: t.get})
}

// get returns the certificate for a connection. It checks both files for each connection, because
// this is cheaper than a watch and also follows a mounted Secret.
func (t *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.identify()
	if seen == t.seen {
		return t.pair, nil
	}
	t.seen = seen
	pair, err := t.load()
	if err != nil {
		t.log.Warn("cannot load the changed tls certificate, keeping the last one", "file", t.certFile, "err", err)
		return t.pair, nil
	}
	t.pair = pair
	t.log.Info("tls certificate reloaded", "file", t.certFile)
	return t.pair, nil
}

// identify returns a text that changes when one of the files does.
func (t *certificate) identify() string {
	of := func(path string) string {
		fi, err := os.Stat(path)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(fi.ModTime().UnixNano(), fi.Size())
	}
	return of(t.certFile) + " " + of(t.keyFile)
}
