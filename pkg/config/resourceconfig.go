package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parseResourceConfig reads sharing in the syntax of the sharing fork of NVIDIA's device plugin:
// "<original>[:<new>[:<replicas>]],…", with names without the domain. Replicas of -1 mean one for
// each 1000 MiB of memory. Resources that are not in the list do not change. MIG devices that are
// renamed to gpu form one resource with the GPUs.
func parseResourceConfig(value string, r Resources, found *findings) ([]Share, error) {
	var (
		out  []Share
		errs []error
	)
	where := map[string]int{}
	for i, entry := range strings.Split(value, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		at := fmt.Sprintf("flag --resource-config: entry %d, %q: ", i+1, entry)
		fail := func(format string, args ...any) { errs = append(errs, errors.New(at+fmt.Sprintf(format, args...))) }
		share, err := parseEntry(entry)
		if err != nil {
			fail("%s", err)
			continue
		}
		if why := unknownName(share.Name, r); why != "" {
			found.warnings = append(found.warnings, at+why)
		}
		if share.Replicas > MaxReplicas {
			share.Replicas = MaxReplicas
			found.warnings = append(found.warnings, at+tooManyReplicas)
		}
		if first := where[share.Name]; first > 0 {
			fail("%s is already in entry %d", share.Name, first)
			continue
		}
		where[share.Name] = i + 1
		out = append(out, share)
	}
	if strings.TrimSpace(value) != "" && len(out) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("flag --resource-config: %q has no entry: must be empty or a list of %s", value, entryAllowed))
	}
	return out, errors.Join(errs...)
}

const entryAllowed = "<original>[:<new>[:<replicas>]], like gpu:sharedgpu:4"

func parseEntry(entry string) (Share, error) {
	parts := strings.Split(entry, ":")
	if len(parts) > 3 {
		return Share{}, errors.New("too many parts: must be " + entryAllowed)
	}
	s := Share{Replicas: 1}
	for i, to := range []*string{&s.Name, &s.Rename} {
		if i >= len(parts) {
			break
		}
		name, ok := resourceName(strings.TrimSpace(parts[i]))
		if !ok {
			return Share{}, fmt.Errorf("invalid name %q: must be %s", parts[i], nameAllowed)
		}
		*to = name
	}
	if s.Rename == "" {
		s.Rename = s.Name
	}
	if len(parts) == 3 {
		n, err := strconv.Atoi(strings.TrimSpace(parts[2]))
		if err != nil || n < 1 && n != AutoReplicas {
			return Share{}, fmt.Errorf("invalid replicas %q: must be an integer of at least 1, or %d for one replica for each 1000 MiB of memory",
				parts[2], AutoReplicas)
		}
		s.Replicas = n
	}
	return s, nil
}
