package archive

import (
	"regexp"
	"strings"

	"outrigger.dev/orchestrator/internal/facts"
)

// mark takes the place of a secret.
const mark = "REMOVED"

// The kinds of secrets that are removed, for the index.
const (
	removedEnv        = "values of environment variables"
	removedAnnotation = "annotation kubectl.kubernetes.io/last-applied-configuration"
	removedPassword   = "passwords and tokens"
	removedURL        = "credentials in URLs"
	removedKey        = "private keys"
	removedSecret     = "contents of Secrets"
)

// secretWord matches a part of the name of a secret value.
const secretWord = `(?:passw(?:or)?d|passphrase|secret|token|cookie|credential|\bpwd\b|` +
	`(?:api|access|private|encryption|licen[cs]e|account|shared|storage|client|ssh|signing)[_-]?key)`

// The patterns of secrets in a text. Group 1 stays, and so does the last group, if there is one.
var patterns = []struct { //nolint:gochecknoglobals // it is constant
	what    string
	pattern *regexp.Regexp
}{
	{removedKey, regexp.MustCompile(`()(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z))`)},
	// The beginning of a log can be in the middle of a key.
	{removedKey, regexp.MustCompile(`()(?:[A-Za-z0-9+/=]+(?:\\n|\s)+)*-----END [A-Z0-9 ]*PRIVATE KEY-----`)},
	{removedURL, regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/@"'<>]+(@)`)},
	{removedPassword, regexp.MustCompile(`(?i)(\bauthorization\b\\?["']?[ \t]*[:=][ \t]*\\?["']?)[^\n"'\\]+`)},
	{removedPassword, regexp.MustCompile(`(?i)(\bbearer\s+)[a-z0-9._~+/=-]{8,}`)},
	// A JSON Web Token, such as the token of a service account.
	{removedPassword, regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`)},
	// Tokens of GitHub, GitLab, NVIDIA's NGC, AWS, Slack and Hugging Face have these prefixes.
	{removedPassword, regexp.MustCompile(`()\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|hf_[A-Za-z0-9]{20,})`)},
	// A certificate or key in a kubeconfig: "-----BEGIN" in base64.
	{removedKey, regexp.MustCompile(`()\bLS0tLS1CRUdJTi[A-Za-z0-9+/=]+`)},
	// The auths of a Docker config.
	{removedPassword, regexp.MustCompile(`(?i)(\bauth\\?["']?\s*[:=]\s*\\?["']?)(?:[a-z0-9+/]{8,}={0,2}|[a-z0-9+/]{4,}={1,2})[^\s"',;\\]*`)},
	// Signed URLs of object stores.
	{removedPassword, regexp.MustCompile(`(?i)([?&](?:sig|signature|x-amz-signature|x-amz-credential|x-goog-signature)=)[^&\s"']+`)},
}

// assignment matches the name of a secret before its value: NAME=VALUE, NAME: VALUE, "NAME": "VALUE". Quotes can have backslashes,
// as in a log of JSON. option matches --NAME VALUE. The values are not a part of the patterns, because a value can have the name
// of another one: the time would grow with the square of the length.
var (
	assignment = regexp.MustCompile(`(?i)([\w.-]*` + secretWord + `[\w.-]*)\\?["']?[ \t]*[:=][ \t]*`)
	option     = regexp.MustCompile(`(?i)(--?[\w.-]*` + secretWord + `[\w.-]*)[ \t]+`)
)

// suspicious matches texts that can have a secret. Most texts of objects have none, and need no other pattern.
var suspicious = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|cookie|pwd|key|@|auth|bearer|sig=|signature|eyJ|_pat_|gh[pousr]_|glpat-|nvapi-|akia|xox|hf_|LS0tLS1CRUdJTi`)

// harmless matches the names of values that only name a secret, or count it.
var harmless = regexp.MustCompile(`(?i)(?:names?|namespace|refs?|files?|paths?|dir|folder|mount|projected|seconds|expiry|count|type|kind|version|enabled|required|policy|provider)$`)

// secretName matches the name of a value that can be secret.
var secretName = regexp.MustCompile(`(?i)` + secretWord)

// isSecret reports whether a name is the name of a secret value. Most names have no part of the words, so a fast search for the
// parts comes first.
func isSecret(name string) bool {
	lower := strings.ToLower(name)
	part := func(s string) bool { return strings.Contains(lower, s) }
	return (part("pass") || part("secret") || part("token") || part("key") || part("credential") || part("cookie") || part("pwd")) && secretName.MatchString(name) && !harmless.MatchString(name)
}

// text replaces secrets of a text with marks, and counts them.
func (r removals) text(s string) string {
	if !suspicious.MatchString(s) {
		return s
	}
	for _, p := range patterns {
		s = p.pattern.ReplaceAllStringFunc(s, func(found string) string {
			groups := p.pattern.FindStringSubmatch(found)
			r.add(p.what)
			out := groups[1] + mark
			if len(groups) > 2 {
				out += groups[2]
			}
			return out
		})
	}
	return r.assigned(option, r.assigned(assignment, s))
}

// assigned replaces the values behind the names that a pattern finds with marks.
func (r removals) assigned(pattern *regexp.Regexp, s string) string {
	var b strings.Builder
	done := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(s, -1) {
		from := at[1]
		if from < done || !isSecret(s[at[2]:at[3]]) {
			continue
		}
		start, end := valueOf(s[from:])
		if start == end || s[from+start:from+end] == mark {
			continue
		}
		r.add(removedPassword)
		b.WriteString(s[done:from+start] + mark)
		done = from + end
	}
	return b.String() + s[done:]
}

// valueOf returns where the value at the beginning of a text is, without its quotes. A value without quotes ends at a space or before
// the next value. A quote that does not end, ends with the line.
func valueOf(s string) (start, end int) {
	for _, quote := range []string{`\"`, `"`, `'`} {
		if !strings.HasPrefix(s, quote) {
			continue
		}
		start = len(quote)
		for end = start; end < len(s) && s[end] != '\n' && !strings.HasPrefix(s[end:], quote); end++ {
			if quote == `"` && s[end] == '\\' && end+1 < len(s) {
				end++
			}
		}
		return start, end
	}
	for end = 0; end < len(s) && !ends(s, end); end++ {
	}
	return 0, end
}

// next matches the text after a separator that ends a value: the name of the next value, or the end of the text or of what has the value.
var next = regexp.MustCompile(`^[,;&][ \t]*(?:\\?["']?[\w.-]+\\?["']?[ \t]*[:=]|[\s)\]}"']|$)|^[)\]}]+(?:[\s,;"']|$)`)

// ends reports whether a value without quotes ends before the character i. A secret can have most characters, so a separator ends it
// only if the next value, a space or nothing follows: in a URL, a connection string, or braces.
func ends(s string, i int) bool {
	switch s[i] {
	case ' ', '\t', '\r', '\n', '"':
		return true
	case ',', ';', '&', ')', ']', '}':
		return next.MatchString(s[i:min(len(s), i+maxName)])
	}
	return false
}

// maxName is the maximum length of a name in a value, so that the time grows with the length of a text.
const maxName = 64

// removals counts the secrets that were removed, by their kind.
type removals map[string]int

func (r removals) add(what string) { r[what]++ }

// object removes secrets, values of environment variables, and fields that nobody reads from an object.
func (r removals) object(o map[string]any) {
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		if meta["creationTimestamp"] == nil {
			delete(meta, "creationTimestamp")
		}
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
			if _, has := annotations[lastApplied]; has {
				delete(annotations, lastApplied)
				r.add(removedAnnotation)
			}
		}
	}
	if status, ok := o["status"].(map[string]any); ok && o["kind"] == "Node" {
		delete(status, "images")
	}
	r.values(o)
}

// values removes secrets from the values of an object.
func (r removals) values(o map[string]any) {
	if o["kind"] == "Secret" { // values can have whole objects
		for _, field := range []string{"data", "stringData"} {
			if o[field] != nil {
				o[field] = mark
				r.add(removedSecret)
			}
		}
	}
	for key, value := range o {
		switch v := value.(type) {
		case string:
			if v != "" && v != mark && isSecret(key) {
				r.add(removedPassword)
				o[key] = mark
				continue
			}
			o[key] = r.text(v)
		case []any:
			r.list(key, v)
		case map[string]any:
			r.values(v)
		}
	}
}

// pair removes the value of a name and value: of an environment variable, or of an HTTP header.
func (r removals) pair(list string, o map[string]any) {
	name, _ := o["name"].(string)
	value, _ := o["value"].(string)
	what := ""
	switch {
	case value == "" || value == mark || name == facts.VisibleDevices:
	case strings.HasSuffix(strings.ToLower(list), "env"):
		what = removedEnv
	case isSecret(name), strings.EqualFold(name, "Authorization"):
		what = removedPassword
	}
	if what != "" {
		o["value"] = mark
		r.add(what)
	}
}

// list removes secrets from a list. The lists of values that begin a process have environment variables and arguments.
func (r removals) list(key string, items []any) {
	after := "" // the argument before, if it is a flag whose value is the next argument
	for i, item := range items {
		switch v := item.(type) {
		case string:
			if after != "" && isSecret(after) && !strings.HasPrefix(v, "-") {
				items[i] = mark
				r.add(removedPassword)
			} else if name, value, has := strings.Cut(v, "="); has && value != "" && value != mark && strings.HasPrefix(name, "-") && isSecret(name) {
				items[i] = name + "=" + mark // the value can have spaces
				r.add(removedPassword)
			} else {
				items[i] = r.text(v)
			}
			if after = ""; strings.HasPrefix(v, "-") && !strings.Contains(v, "=") {
				after = v
			}
		case []any:
			r.list(key, v)
		case map[string]any:
			r.pair(key, v)
			r.values(v)
		}
	}
}
