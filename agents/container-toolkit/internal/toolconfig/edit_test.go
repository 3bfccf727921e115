package toolconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

const edited = `# Site: Lyon
disable-require = false # for now
unknown = {x = 1}

[nvidia-container-cli]
root = '/'
environment = [
  "A=1", # keep
]
[nvidia-container-runtime.modes]
cdi = {default-kind = "nvidia.com/gpu", spec-dirs = ["/etc/cdi"]}
# the end
`

func TestEditKeepsTheRest(t *testing.T) {
	replace := func(old, new string) string {
		if !strings.Contains(edited, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(edited, old, new, 1)
	}
	for name, c := range map[string]struct {
		set  []string
		want string
	}{
		"a flag":                          {[]string{"disable-require=true"}, replace("false", "true")},
		"a flag without value":            {[]string{"disable-require"}, replace("false", "true")},
		"a flag as a number":              {[]string{"disable-require=1"}, replace("false", "true")},
		"a string with quotes":            {[]string{`nvidia-container-cli.root=/a"b\c`}, replace("'/'", `"/a\"b\\c"`)},
		"a string with an equals":         {[]string{"nvidia-container-cli.root=a=b"}, replace("'/'", `"a=b"`)},
		"a list with commas":              {[]string{"nvidia-container-cli.environment=B=2,C=3"}, replace("[\n  \"A=1\", # keep\n]", `["B=2", "C=3"]`)},
		"a list with colons":              {[]string{"nvidia-container-cli.environment=B:C"}, replace("[\n  \"A=1\", # keep\n]", `["B", "C"]`)},
		"an empty list":                   {[]string{"nvidia-container-cli.environment="}, replace("[\n  \"A=1\", # keep\n]", `[]`)},
		"a key in inline tables":          {[]string{"nvidia-container-runtime.modes.cdi.default-kind=a.b/c"}, replace(`"nvidia.com/gpu"`, `"a.b/c"`)},
		"a removed key":                   {[]string{"nvidia-container-cli.root=nil"}, replace("root = '/'\n", "")},
		"a removed list":                  {[]string{"nvidia-container-cli.environment=nil"}, replace("environment = [\n  \"A=1\", # keep\n]\n", "")},
		"a removed key that is not there": {[]string{"nvidia-container-cli.path=nil"}, edited},
		"a new key":                       {[]string{"nvidia-container-cli.no-cgroups"}, replace("# keep\n]\n", "# keep\n]\nno-cgroups = true\n")},
		"a new key of no table":           {[]string{"swarm-resource=A,B"}, replace("{x = 1}\n", "{x = 1}\nswarm-resource = \"A,B\"\n")},
		"a new table": {
			[]string{"nvidia-container-runtime.mode=cdi", "nvidia-container-runtime.debug=/x"},
			edited + "\n[nvidia-container-runtime]\nmode = \"cdi\"\ndebug = \"/x\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []toolconfig.Change
			for _, s := range c.set {
				change, err := toolconfig.ParseChange(s)
				assert.NilError(t, err)
				changes = append(changes, change)
			}
			got, err := toolconfig.Edit([]byte(edited), changes...)
			assert.NilError(t, err)
			if d := cmp.Diff(c.want, string(got)); d != "" {
				t.Errorf("file (-want +got):\n%s", d)
			}
			if again, err := toolconfig.Edit(got, changes...); err != nil || string(again) != string(got) {
				t.Errorf("the same edit again changes it to %q, %v", again, err)
			}
		})
	}
}

func TestEditOfAFileWithoutLastNewline(t *testing.T) {
	got, err := toolconfig.Edit([]byte("disable-require = true"), toolconfig.Change{Key: "features.ignore-imex-channel-requests", Value: "true"})
	if want := "disable-require = true\n\n[features]\nignore-imex-channel-requests = true\n"; err != nil || string(got) != want {
		t.Errorf("Edit() = %q, %v, want %q", got, err, want)
	}
	got, err = toolconfig.Edit([]byte("disable-require = true"), toolconfig.Change{Key: "swarm-resource", Value: "A"})
	if want := "disable-require = true\nswarm-resource = \"A\"\n"; err != nil || string(got) != want {
		t.Errorf("Edit() = %q, %v, want %q", got, err, want)
	}
}

func TestEditRejects(t *testing.T) {
	for s, want := range map[string]string{
		"nvidia-container-cli.rot=/":    "no such key",
		"nvidia-container-cli.root":     "use nvidia-container-cli.root=…",
		"disable-require=maybe":         "neither true nor false",
		"=x":                            "no such key",
		"nvidia-container-cli.ldconfig": "use nvidia-container-cli.ldconfig=…",
	} {
		if _, err := toolconfig.ParseChange(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseChange(%q) = %v, want %q", s, err, want)
		}
	}
	for name, c := range map[string]struct {
		change toolconfig.Change
		want   string
	}{
		"a value that is not allowed":      {toolconfig.Change{Key: "nvidia-container-runtime.mode", Value: "x"}, "use auto"},
		"an ldconfig of containers":        {toolconfig.Change{Key: "nvidia-container-cli.ldconfig", Value: "/sbin/ldconfig"}, "program of the host"},
		"removing from an inline table":    {toolconfig.Change{Key: "nvidia-container-runtime.modes.cdi.spec-dirs", Remove: true}, "remove it by hand"},
		"a table that the file has closed": {toolconfig.Change{Key: "nvidia-container-runtime.modes.cdi.annotation-prefixes", Value: "x"}, "line 11: nvidia-container-runtime.modes.cdi is an inline table, which cannot be extended: write it as ["},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := toolconfig.Edit([]byte(edited), c.change); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Edit() = %q, %v, want the error %q", got, err, c.want)
			}
		})
	}
}
