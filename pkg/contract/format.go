package contract

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Keys of the stamp.
const (
	keyBootID        = "OUTRIGGER_BOOT_ID"
	keyWriter        = "OUTRIGGER_WRITER"
	keyTime          = "OUTRIGGER_TIME"
	keyDriverVersion = "OUTRIGGER_DRIVER_VERSION"
	keyHeld          = "OUTRIGGER_HELD"
)

// maxFile is the largest size of a file. The agents write less than 1 KiB.
const maxFile = 64 << 10

// format returns the content of the file as KEY=value lines: the values, then the stamp.
func format(values map[string]string, s Stamp) ([]byte, error) {
	stamp := map[string]string{
		keyBootID: s.BootID,
		keyWriter: s.Writer,
		keyTime:   s.Time.UTC().Format(time.RFC3339Nano),
	}
	if s.DriverVersion != "" {
		stamp[keyDriverVersion] = s.DriverVersion
	}
	if s.Held {
		stamp[keyHeld] = "true"
	}
	for k := range values {
		if _, ours := stamp[k]; ours || !isKey(k) {
			return nil, fmt.Errorf("format contract file: key %q: must be letters, digits and _, and not a key of the stamp", k)
		}
	}
	var b bytes.Buffer
	for _, m := range []map[string]string{values, stamp} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if strings.ContainsAny(m[k], "\n\r\x00") {
				return nil, fmt.Errorf("format contract file: value of %s: must be one line", k)
			}
			fmt.Fprintf(&b, "%s=%s\n", k, quote(m[k]))
		}
	}
	return b.Bytes(), nil
}

// parse reads KEY=value lines. The agents use only values that format has written: the values of other
// programs, such as NVIDIA's, have no meaning here.
func parse(data []byte) (values map[string]string, s Stamp, err error) {
	if len(data) > maxFile {
		return nil, Stamp{}, fmt.Errorf("file has more than %d bytes", maxFile)
	}
	values = map[string]string{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, quoted, ok := strings.Cut(line, "=")
		if !ok || !isKey(key) {
			return nil, Stamp{}, fmt.Errorf("line %d is not KEY=value", n)
		}
		if strings.ContainsAny(quoted, "\r\x00") {
			return nil, Stamp{}, fmt.Errorf("line %d, value of %s: control characters", n, key)
		}
		values[key] = unquote(quoted)
	}
	s, err = extractStamp(values)
	return values, s, err
}

// extractStamp moves the keys of the stamp out of values.
func extractStamp(values map[string]string) (Stamp, error) {
	s := Stamp{BootID: values[keyBootID], Writer: values[keyWriter], DriverVersion: values[keyDriverVersion]}
	if t, ok := values[keyTime]; ok {
		var err error
		if s.Time, err = time.Parse(time.RFC3339Nano, t); err != nil {
			return Stamp{}, fmt.Errorf("value of %s: %q is not a time", keyTime, t)
		}
	}
	if h, ok := values[keyHeld]; ok {
		var err error
		if s.Held, err = strconv.ParseBool(h); err != nil {
			return Stamp{}, fmt.Errorf("value of %s: %q is not true or false", keyHeld, h)
		}
	}
	for _, k := range []string{keyBootID, keyWriter, keyTime, keyDriverVersion, keyHeld} {
		delete(values, k)
	}
	return s, nil
}

func isKey(k string) bool {
	for i, r := range k {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return k != ""
}

// quote returns v as one word of a shell.
func quote(v string) string {
	bare := strings.IndexFunc(v, func(r rune) bool {
		return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+,-", r))
	}) < 0
	if bare {
		return v
	}
	return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
}

// unquote is the inverse of quote. It returns any other text as it is.
func unquote(v string) string {
	if len(v) < 2 || v[0] != '\'' || v[len(v)-1] != '\'' {
		return v
	}
	return strings.ReplaceAll(v[1:len(v)-1], `'\''`, "'")
}
