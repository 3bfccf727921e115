package check

import (
	"slices"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/pkg/cause"
)

// signature checks the signature, if the kernel requires one.
func (c *checker) signature() {
	why := Demand(c.kernel)
	if why == "" {
		return
	}
	if c.module.Signature == nil {
		c.add(cause.ModuleUnsigned, "it is not signed, but the kernel requires signatures: %s", why)
		return
	}
	if c.unknownKey() {
		c.add(cause.ModuleSignatureRejected, "it is signed by the key %s, which is in none of the kernel's keyrings, but the kernel requires trusted signatures: %s", c.module.Signature.KeyID, why)
	}
}

// Demand returns why the kernel requires signatures, or "" if it does not.
func Demand(k kernel.Kernel) string {
	switch {
	case k.SigEnforce:
		return "module.sig_enforce is set"
	case k.Lockdown != "" && k.Lockdown != "none":
		return "it is locked down (" + k.Lockdown + "), as with Secure Boot"
	}
	return ""
}

// unknownKey reports whether the kernel certainly does not have the key of the signature. This is
// known only for a signature with a key identifier, because the kernel lists its keys by identifier.
// A signature with issuer and serial number is left to the kernel.
func (c *checker) unknownKey() bool {
	s := c.module.Signature
	return s.ByKey && c.kernel.Keys != nil && !slices.ContainsFunc(c.kernel.Keys, func(k kernel.Key) bool { return k.ID == s.KeyID })
}
