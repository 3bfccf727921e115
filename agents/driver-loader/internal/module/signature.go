package module

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"

	"outrigger.dev/pkg/text"
)

const (
	// SignatureMark is the end of a signed module: MODULE_SIG_STRING of the kernel.
	SignatureMark = "~Module signature appended~\n"
	// trailerSize is the size of the kernel's struct module_signature.
	trailerSize = 12
	// PKCS7 is PKEY_ID_PKCS7 in the kernel's struct module_signature. It is the only format that
	// kernels since 4.3 accept.
	PKCS7 = 2
)

// cutSignature splits a module into the part before the signature and the signature, which is nil for an
// unsigned module. The kernel's struct module_signature and a marker follow the signature.
func cutSignature(data []byte) ([]byte, *Signature, error) {
	body, ok := bytes.CutSuffix(data, []byte(SignatureMark))
	if !ok {
		return data, nil, nil
	}
	if len(body) < trailerSize {
		return nil, nil, errCutOff
	}
	trailer, body := body[len(body)-trailerSize:], body[:len(body)-trailerSize]
	// algo, hash, id_type, signer_len, key_id_len, three bytes of padding, sig_len
	if trailer[2] != PKCS7 {
		return nil, nil, fmt.Errorf("its signature has the format %d, but kernels since 4.3 accept only PKCS #7: sign the module again", trailer[2])
	}
	size := uint64(binary.BigEndian.Uint32(trailer[8:]))
	if size > uint64(len(body)) {
		return nil, nil, errors.New("its signature is longer than the file: sign the module again")
	}
	split := uint64(len(body)) - size
	s, err := parseSignature(body[split:])
	if err != nil {
		return nil, nil, fmt.Errorf("parse its signature: %w", err)
	}
	return body[:split], s, nil
}

// contentInfo and the types below are the needed parts of the types in RFC 2315 and RFC 5652. The
// parser accepts additional fields at the end.
type contentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"explicit,tag:0"`
}

type signedData struct {
	Version int
	Digests asn1.RawValue
	Content asn1.RawValue
	Certs   asn1.RawValue `asn1:"optional,tag:0"`
	CRLs    asn1.RawValue `asn1:"optional,tag:1"`
	Signers []signerInfo  `asn1:"set"`
}

type signerInfo struct {
	Version int
	ID      asn1.RawValue
}

type issuerAndSerial struct {
	Issuer pkix.RDNSequence
	Serial *big.Int
}

// parseSignature returns the first signer of a PKCS #7 message.
func parseSignature(der []byte) (*Signature, error) {
	var info contentInfo
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, err
	}
	if signedDataOID := (asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}); !info.Type.Equal(signedDataOID) {
		return nil, fmt.Errorf("it has the type %s, not signedData", info.Type)
	}
	var signed signedData
	if _, err := asn1.Unmarshal(info.Content.Bytes, &signed); err != nil {
		return nil, err
	}
	if len(signed.Signers) == 0 {
		return nil, errors.New("it has no signer")
	}
	signer := signed.Signers[0]
	s := &Signature{}
	if signer.ID.Class == asn1.ClassContextSpecific && signer.ID.Tag == 0 {
		s.ByKey, s.KeyID = true, hex.EncodeToString(signer.ID.Bytes)
		return s, nil
	}
	var id issuerAndSerial
	if _, err := asn1.Unmarshal(signer.ID.FullBytes, &id); err != nil {
		return nil, err
	}
	var issuer pkix.Name
	issuer.FillFromRDNSequence(&id.Issuer)
	s.Signer, s.KeyID = text.Printable(issuer.CommonName), hex.EncodeToString(id.Serial.Bytes())
	return s, nil
}
