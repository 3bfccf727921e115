package build_test

import (
	"bytes"
	"crypto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/pkg/cause"
)

// newKey makes a key and its certificate with openssl, as users do.
func newKey(t *testing.T, kind string) (key, certificate string) {
	t.Helper()
	dir := t.TempDir()
	key, certificate = dir+"/key.pem", dir+"/cert.pem"
	algorithm := []string{"-newkey", "rsa:2048"}
	if kind == "ecdsa" {
		algorithm = []string{"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"}
	}
	args := append([]string{"req", "-x509", "-nodes", "-days", "2", "-subj", "/O=Outrigger/CN=Tests", "-keyout", key, "-out", certificate}, algorithm...)
	if out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput(); err != nil {
		t.Skipf("this machine has no openssl that makes keys: %v: %s", err, out)
	}
	return key, certificate
}

const mark = "~Module signature appended~\n"

// split returns a signed module's content and its PKCS#7 message.
func split(t *testing.T, signed []byte) (content, message []byte) {
	t.Helper()
	rest, found := bytes.CutSuffix(signed, []byte(mark))
	if !found || len(rest) < 12 {
		t.Fatal("the module does not end as a signed one")
	}
	info := rest[len(rest)-12:]
	size := int(info[8])<<24 | int(info[9])<<16 | int(info[10])<<8 | int(info[11])
	if !bytes.Equal(info[:8], []byte{0, 0, 2, 0, 0, 0, 0, 0}) || size > len(rest)-12 {
		t.Fatalf("struct module_signature is %v", info)
	}
	return rest[:len(rest)-12-size], rest[len(rest)-12-size : len(rest)-12]
}

func TestSignaturesAreThoseOfTheKernel(t *testing.T) {
	content := bytes.Repeat([]byte("a module "), 1000)
	for _, kind := range []string{"rsa", "ecdsa"} {
		key, certificate := newKey(t, kind)
		signer, err := build.NewSigner(key, certificate)
		assert.NilError(t, err)
		for name, hash := range map[string]crypto.Hash{"sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512} {
			signed, err := signer.Sign(content, build.HashFor(name))
			assert.NilError(t, err)
			if build.HashFor(name) != hash {
				t.Error(name)
			}
			got, message := split(t, signed)
			if !bytes.Equal(got, content) {
				t.Error("the content was changed")
			}
			verify(t, certificate, content, message, true)
			verify(t, certificate, append([]byte("x"), content...), message, false)
		}
	}
	if build.HashFor("sha1") != crypto.SHA512 || build.HashFor("") != crypto.SHA512 {
		t.Error("a weak hash is used")
	}
}

// verify asks openssl whether a message signs a content.
func verify(t *testing.T, certificate string, content, message []byte, want bool) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/content", string(content))
	write(t, dir+"/message", string(message))
	out, err := exec.CommandContext(t.Context(), "openssl", "cms", "-verify", "-binary", "-inform", "DER", "-in", dir+"/message", "-content", dir+"/content",
		"-certfile", certificate, "-nointern", "-noverify", "-out", "/dev/null").CombinedOutput()
	if (err == nil) != want {
		t.Errorf("openssl: %v: %s", err, out)
	}
}

func TestASignatureIsTheSameAsThatOfSignFile(t *testing.T) {
	root, _ := headersOf(t)
	programs, err := filepath.Glob(filepath.Join(root, "usr/lib/linux-kbuild-*/scripts/sign-file"))
	if err != nil || len(programs) == 0 {
		t.Skip("this machine has no sign-file of linux-kbuild")
	}
	key, certificate := newKey(t, "rsa")
	signer, err := build.NewSigner(key, certificate)
	assert.NilError(t, err)
	path := t.TempDir() + "/x.ko"
	write(t, path, "a module")
	if out, err := exec.CommandContext(t.Context(), programs[0], "sha512", key, certificate, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	theirs, err := os.ReadFile(path)
	assert.NilError(t, err)
	ours, err := signer.Sign([]byte("a module"), crypto.SHA512)
	assert.NilError(t, err)
	// RSA signatures have no random part: the bytes are the same.
	if !bytes.Equal(ours, theirs) {
		t.Errorf("ours   %x\ntheirs %x", ours, theirs)
	}
}

func TestAKeyThatCannotSignIsNamed(t *testing.T) {
	key, certificate := newKey(t, "rsa")
	_, other := newKey(t, "rsa")
	broken := filepath.Join(t.TempDir(), "x.pem")
	write(t, broken, "no pem\n")
	for name, test := range map[string]struct{ key, certificate, says string }{
		"no key":                   {key + "x", certificate, "no such file"},
		"no certificate":           {key, certificate + "x", "no such file"},
		"a certificate as key":     {certificate, certificate, `has a block "CERTIFICATE"`},
		"a file that is no PEM":    {broken, certificate, "is not a PEM file"},
		"the certificate of other": {key, other, "is not the certificate of the key"},
	} {
		if _, err := build.NewSigner(test.key, test.certificate); code(err) != cause.SigningKeyInvalid || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *build.Signer
	if none.ID() != "" {
		t.Error("no signer has an identifier")
	}
	signer, err := build.NewSigner(key, certificate)
	if err != nil || len(signer.ID()) != 64 {
		t.Error(err)
	}
}
