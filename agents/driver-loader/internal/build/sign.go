package build

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // registers SHA-384 and SHA-512 with package crypto
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

const maxPEM = 1 << 20

// Signer signs modules with a user's key, in the format of the kernel's sign-file.
type Signer struct {
	key         crypto.Signer
	certificate *x509.Certificate
}

// NewSigner reads a private key and its certificate from PEM files. The node's kernel must trust
// the certificate, for example as a machine owner key. An untrusted one is noticed only when a
// module is loaded.
func NewSigner(keyFile, certificateFile string) (*Signer, error) {
	key, err := readPEM(keyFile, parseKey)
	if err != nil {
		return nil, badKey(keyFile, err, "use an RSA or ECDSA key without a passphrase, in PEM format")
	}
	certificate, err := readPEM(certificateFile, func(b *pem.Block) (*x509.Certificate, error) {
		return x509.ParseCertificate(b.Bytes)
	})
	if err != nil {
		return nil, badKey(certificateFile, err, "use the certificate of the key, in PEM format")
	}
	public, comparable := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !comparable || !public.Equal(key.Public()) {
		return nil, badKey(certificateFile, errors.New("is not the certificate of the key "+keyFile), "use the key and the certificate of one pair")
	}
	return &Signer{key: key, certificate: certificate}, nil
}

func badKey(path string, err error, fix string) error {
	return cause.Cause{Code: cause.SigningKeyInvalid, Subject: path, Text: err.Error(), Fix: fix}
}

// readPEM parses the first block of a PEM file.
func readPEM[T any](path string, parse func(*pem.Block) (T, error)) (T, error) {
	var none T
	data, err := hostfs.ReadFile(path, maxPEM)
	if err != nil {
		return none, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return none, errors.New("is not a PEM file")
	}
	return parse(block)
}

func parseKey(b *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch b.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(b.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	default:
		return nil, fmt.Errorf("has a block %q instead of a private key", b.Type)
	}
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	}
	return nil, errors.New("is neither an RSA nor an ECDSA key")
}

// ID returns the SHA-256 of the certificate. It is part of the cache key of modules.
func (s *Signer) ID() string {
	if s == nil {
		return ""
	}
	sum := sha256.Sum256(s.certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// HashFor returns the hash algorithm for signatures, for the value of the kernel's
// CONFIG_MODULE_SIG_HASH. The kernel has this algorithm built in. For a weak or unknown algorithm,
// HashFor returns SHA-512.
func HashFor(name string) crypto.Hash {
	switch name {
	case "sha256":
		return crypto.SHA256
	case "sha384":
		return crypto.SHA384
	}
	return crypto.SHA512
}

// Sign returns a module with an appended signature in the kernel's format: a detached PKCS#7
// signature, struct module_signature, and a marker.
func (s *Signer) Sign(data []byte, hash crypto.Hash) ([]byte, error) {
	h := hash.New()
	h.Write(data)
	signature, err := s.key.Sign(rand.Reader, h.Sum(nil), hash)
	if err != nil {
		return nil, fmt.Errorf("sign a module: %w", err)
	}
	message, err := s.message(hash, signature)
	if err != nil {
		return nil, fmt.Errorf("encode a signature: %w", err)
	}
	signed := make([]byte, 0, len(data)+len(message)+64)
	signed = append(append(signed, data...), message...)
	signed = append(signed, 0, 0, module.PKCS7, 0, 0, 0, 0, 0)
	signed = binary.BigEndian.AppendUint32(signed, uint32(len(message))) //nolint:gosec // some hundred bytes
	return append(signed, module.SignatureMark...), nil
}

// The structures of PKCS#7 (RFC 2315) that the kernel reads.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content signedData `asn1:"explicit,tag:0"`
	}
	signedData struct {
		Version int
		Digests []pkix.AlgorithmIdentifier `asn1:"set"`
		Content struct{ Type asn1.ObjectIdentifier }
		Signers []signerInfo `asn1:"set"`
	}
	signerInfo struct {
		Version   int
		ID        issuerAndSerial
		Digest    pkix.AlgorithmIdentifier
		Algorithm pkix.AlgorithmIdentifier
		Signature []byte
	}
	issuerAndSerial struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
)

// message returns the signature as PKCS#7.
func (s *Signer) message(hash crypto.Hash, signature []byte) ([]byte, error) {
	// number is the last part of NIST's object identifiers: 1 for SHA-256, and so on.
	number := map[crypto.Hash]int{crypto.SHA256: 1, crypto.SHA384: 2, crypto.SHA512: 3}[hash]
	digest := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, number}}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.RawValue{Tag: asn1.TagNull}}
	if _, is := s.key.(*ecdsa.PrivateKey); is {
		algorithm = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, number + 1}}
	}
	data := signedData{Version: 1, Digests: []pkix.AlgorithmIdentifier{digest}}
	data.Content.Type = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	data.Signers = []signerInfo{{
		Version: 1,
		ID:      issuerAndSerial{Issuer: asn1.RawValue{FullBytes: s.certificate.RawIssuer}, Serial: s.certificate.SerialNumber},
		Digest:  digest, Algorithm: algorithm, Signature: signature,
	}}
	return asn1.Marshal(contentInfo{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}, Content: data})
}
