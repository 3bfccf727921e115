package machine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOSRelease(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"no quotes":                       {"ID=ubuntu\n", map[string]string{"ID": "ubuntu"}},
		"double quotes":                   {"VERSION_ID=\"24.04\"\n", map[string]string{"VERSION_ID": "24.04"}},
		"single quotes":                   {"VERSION_ID='9.4'\n", map[string]string{"VERSION_ID": "9.4"}},
		"no newline at the end":           {"ID=rhel", map[string]string{"ID": "rhel"}},
		"CRLF line endings":               {"ID=rhel\r\nVERSION_ID=\"9.4\"\r\n", map[string]string{"ID": "rhel", "VERSION_ID": "9.4"}},
		"an empty value":                  {"VERSION_ID=\nID=\"\"\n", map[string]string{"VERSION_ID": "", "ID": ""}},
		"comments and empty lines":        {"# ID=no\n\n  # ID=no\nID=arch\n", map[string]string{"ID": "arch"}},
		"a comment after a value":         {"ID=arch # rolls\nA=\"b c\" # d\n", map[string]string{"ID": "arch", "A": "b c"}},
		"a hash in a value":               {"A=b#c\nB=\"#c\"\n", map[string]string{"A": "b#c", "B": "#c"}},
		"escapes in double quotes":        {`A="a\"b\\c\$d` + "\\`" + `e\n"`, map[string]string{"A": "a\"b\\c$d`e\\n"}},
		"escapes without quotes":          {`A=a\ b\"c`, map[string]string{"A": `a b"c`}},
		"no escapes in single quotes":     {`A='a\"b\'`, map[string]string{"A": `a\"b\`}},
		"a backslash at the end":          {"A=a\\\n", map[string]string{"A": `a\`}},
		"quotes that are not closed":      {"A=\"a\nB='b\nID=x\n", map[string]string{"ID": "x"}},
		"an escaped quote does not close": {`A="a\"`, map[string]string{}},
		"an equals sign in a value":       {"URL=\"https://x/?a=b\"\n", map[string]string{"URL": "https://x/?a=b"}},
		"the last of two":                 {"ID=a\nID=b\n", map[string]string{"ID": "b"}},
		"lines without an assignment":     {"ID\n=x\n1A=x\nexport ID=x\nA B=x\n", map[string]string{}},
		"lower case and digits in a name": {"_a1=x\n", map[string]string{"_a1": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parseOSRelease(c.text)); diff != "" {
				t.Errorf("parseOSRelease(%q) (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

func FuzzParseOSRelease(f *testing.F) {
	f.Add("ID=\"a\\\"b\"\nVERSION_ID='1'\n# c\nA=b\\")
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range parseOSRelease(text) {
			if !isName(name) {
				t.Errorf("%q is not a valid name", name)
			}
			if len(value) > len(text) || strings.Contains(value, "\n") {
				t.Errorf("%s = %q cannot be the value of one line", name, value)
			}
			// A quoted value is parsed unchanged.
			if got := parseOSRelease(name + "=" + quoted(value))[name]; got != value {
				t.Errorf("%q was parsed as %q", value, got)
			}
		}
	})
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(s) + `"`
}
