package config

import "strings"

const refAllowed = "an index like 0, an index of a MIG device like 0:1, GPU-<uuid>, MIG-<uuid> or MIG-GPU-<uuid>/<gpu instance>/<compute instance>"

// Valid reports whether r can name a device.
func (r Ref) Valid() bool {
	text := string(r)
	if uuid, ok := strings.CutPrefix(text, "MIG-GPU-"); ok {
		parts := strings.Split(uuid, "/")
		return len(parts) == 3 && isUUID(parts[0]) && isIndex(parts[1]) && isIndex(parts[2])
	}
	for _, prefix := range []string{"GPU-", "MIG-"} {
		if uuid, ok := strings.CutPrefix(text, prefix); ok {
			return isUUID(uuid)
		}
	}
	gpu, device, mig := strings.Cut(text, ":")
	return isIndex(gpu) && (!mig || isIndex(device))
}

// MIG reports whether r names a MIG device.
func (r Ref) MIG() bool {
	return strings.HasPrefix(string(r), "MIG-") || strings.Contains(string(r), ":")
}

// isIndex rejects leading zeros, so that each device has only one name.
func isIndex(s string) bool {
	const digits = 4
	if s == "" || len(s) > digits || s[0] == '0' && s != "0" {
		return false
	}
	return consistsOf(s, "0123456789")
}

func isUUID(s string) bool {
	parts := strings.Split(s, "-")
	lengths := []int{8, 4, 4, 4, 12}
	if len(parts) != len(lengths) {
		return false
	}
	for i, part := range parts {
		if len(part) != lengths[i] || !consistsOf(part, "0123456789abcdefABCDEF") {
			return false
		}
	}
	return true
}

// consistsOf reports whether s has only these characters.
func consistsOf(s, characters string) bool { return strings.Trim(s, characters) == "" }
