package config

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
)

// The default names of resources.
const (
	Domain = "nvidia.com/"
	// GPUResource is the name of whole GPUs, and of MIG devices with strategy single.
	GPUResource = Domain + "gpu"
	// migResourcePrefix precedes the profile in the name of MIG devices with strategy
	// mixed.
	migResourcePrefix = Domain + "mig-"
)

const (
	// maxName is the length that Kubernetes accepts.
	maxName     = 63
	nameAllowed = "a name like nvidia.com/gpu or gpu: in the domain nvidia.com, at most 63 characters in total, with lower-case letters, digits, - and . after the domain"
)

// resourceName returns the fully qualified name, and whether it is valid.
func resourceName(text string) (string, bool) {
	base := strings.TrimPrefix(text, Domain)
	return Domain + base, len(Domain)+len(base) <= maxName && isSubdomain(base)
}

// isSubdomain reports whether s is a subdomain by RFC 1123: words joined by dots, of lower-case
// letters, digits and "-". A word does not begin or end with "-".
func isSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		ok := label != "" && label[0] != '-' && label[len(label)-1] != '-'
		if !ok || !consistsOf(label, "abcdefghijklmnopqrstuvwxyz0123456789-") {
			return false
		}
	}
	return true
}

// MIGResource returns the resource name of MIG devices with a profile for the strategy mixed, as
// NVIDIA's device plugin writes it. It returns an empty name for an unknown profile.
func MIGResource(p gpu.Profile) string {
	if p == (gpu.Profile{}) {
		return ""
	}
	return migResourcePrefix + ProfileName(p)
}

// ProfileName returns a profile as it is written in names of resources and in labels, which must
// not contain "+": 1g.5gb.me for 1g.5gb+me.
func ProfileName(p gpu.Profile) string { return strings.ReplaceAll(p.String(), "+", ".") }

// IsMIGResource reports whether name is the resource name of a profile.
func IsMIGResource(name string) bool {
	profile := strings.TrimPrefix(name, migResourcePrefix)
	p, err := gpu.ParseProfile(strings.Replace(profile, "gb.", "gb+", 1))
	return err == nil && MIGResource(p) == name
}

// unknownName returns why no device can have the name before sharing, or an empty text if a device
// can have it.
func unknownName(name string, r Resources) string {
	named := func(p Pattern) bool { return p.Name == name }
	if name == GPUResource || IsMIGResource(name) ||
		slices.ContainsFunc(r.GPUs, named) || slices.ContainsFunc(r.MIG, named) {
		return ""
	}
	return fmt.Sprintf("no device has the name %s, so the entry has no effect: devices are named %s, %s<profile> like %s3g.20gb, or as resources defines",
		name, GPUResource, migResourcePrefix, migResourcePrefix)
}

// onlyMIG reports whether only MIG devices can have the name, except with strategy single.
func onlyMIG(name string, r Resources) bool {
	named := func(p Pattern) bool { return p.Name == name }
	if slices.ContainsFunc(r.GPUs, named) {
		return false
	}
	return strings.HasPrefix(name, migResourcePrefix) || slices.ContainsFunc(r.MIG, named)
}
