package toolconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// parse returns the config in data, which must be valid.
func parse(t *testing.T, data string) *toolconfig.Config {
	t.Helper()
	c, _, err := toolconfig.Parse([]byte(data))
	assert.NilError(t, err, "Parse(%q)", data)
	return c
}

func TestTheDefaultFileHasTheDefaults(t *testing.T) {
	c, warnings, err := toolconfig.Parse(toolconfig.DefaultFile())
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Parse(): %v, warnings %q", err, warnings)
	}
	want := toolconfig.Default()
	want.CLI.Environment = []string{}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
	// Every line that is commented out is a valid key too.
	var shown strings.Builder
	for line := range strings.Lines(string(toolconfig.DefaultFile())) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			line = line[1:]
		}
		shown.WriteString(line)
	}
	if _, warnings, err := toolconfig.Parse([]byte(shown.String())); err != nil || len(warnings) > 0 {
		t.Errorf("Parse() of all examples: %v, warnings %q", err, warnings)
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		change func(*toolconfig.Config)
	}{
		"nothing": {"", func(*toolconfig.Config) {}},
		"what the toolkit's installer writes": {
			`
accept-nvidia-visible-devices-as-volume-mounts = true
accept-nvidia-visible-devices-envvar-when-unprivileged = false
swarm-resource = "DOCKER_RESOURCE_GPU, DOCKER_RESOURCE_MIG"
supported-driver-capabilities = "compute,utility"
[nvidia-container-cli]
  ldconfig = "@/run/nvidia/driver/sbin/ldconfig.real"
  root = "/run/nvidia/driver" # of the driver container
  no-cgroups = true
[nvidia-container-runtime]
  runtimes = [
    "docker-runc", # old
    "runc",
  ]
  mode = "cdi"
  [nvidia-container-runtime.modes]
    [nvidia-container-runtime.modes.cdi]
      default-kind = 'management.nvidia.com/gpu'
[features]
  ignore-imex-channel-requests = true
`,
			func(c *toolconfig.Config) {
				c.AcceptMounts, c.AcceptVariable = true, false
				c.SwarmResources = []string{"DOCKER_RESOURCE_GPU", "DOCKER_RESOURCE_MIG"}
				c.Capabilities = []string{"compute", "utility"}
				c.CLI.Ldconfig, c.CLI.Root, c.CLI.NoCgroups = "@/run/nvidia/driver/sbin/ldconfig.real", "/run/nvidia/driver", true
				c.Runtime.Runtimes, c.Runtime.Mode = []string{"docker-runc", "runc"}, "cdi"
				c.Runtime.CDI.DefaultKind = "management.nvidia.com/gpu"
				c.Features.IgnoreIMEXChannelRequests = true
			},
		},
		"dotted keys and inline tables": {
			"nvidia-container-runtime.modes = {cdi = {spec-dirs = [\"/a\"]}, legacy = {cuda-compat-mode = \"mount\"}}\nfeatures.\"allow-unknown-oci-spec-fields\" = true\n",
			func(c *toolconfig.Config) {
				c.Runtime.CDI.SpecDirs, c.Runtime.CUDACompatMode = []string{"/a"}, "mount"
				c.Features.AllowUnknownOCISpecFields = true
			},
		},
		"words as a list": {`swarm-resource = ["A", "B"]`, func(c *toolconfig.Config) { c.SwarmResources = []string{"A", "B"} }},
		"ldconfig of the container, allowed": {
			"nvidia-container-cli.ldconfig = \"/sbin/ldconfig\"\nfeatures.allow-ldconfig-from-container = true",
			func(c *toolconfig.Config) {
				c.CLI.Ldconfig, c.Features.AllowLdconfigFromContainer = "/sbin/ldconfig", true
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := toolconfig.Default()
			c.change(want)
			if d := cmp.Diff(want, parse(t, c.file)); d != "" {
				t.Errorf("config (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseWarnsAboutUnknownKeys(t *testing.T) {
	_, warnings, err := toolconfig.Parse([]byte("disable-required = true\n\n[nvidia-container-cli]\nroots = 5\n[[more]]\nx = {y = 1979-05-27}\n"))
	want := []string{
		"line 1: unknown key disable-required is ignored: correct or remove it",
		"line 4: unknown key nvidia-container-cli.roots is ignored: correct or remove it",
		"line 6: unknown key more.x.y is ignored: correct or remove it",
	}
	if d := cmp.Diff(want, warnings); d != "" || err != nil {
		t.Errorf("warnings, error %v (-want +got):\n%s", err, d)
	}
}

func TestParseRejects(t *testing.T) {
	for file, want := range map[string]string{
		"disable-require = \"yes\"":                                      "line 1: key disable-require: use true or false",
		"\n[nvidia-container-cli]\nroot = [\"/\"]":                       `line 3: key nvidia-container-cli.root: use a string`,
		"[nvidia-container-runtime]\nruntimes = \"runc\"":                `line 2: key nvidia-container-runtime.runtimes: use a list of strings`,
		"[nvidia-container-runtime]\nruntimes = [1]":                     "use a list of strings",
		"[nvidia-container-runtime]\nruntimes = []":                      "the list is empty",
		"nvidia-container-runtime.mode = \"magic\"":                      `"magic" is not allowed: use auto, cdi, csv, jit-cdi or legacy`,
		"nvidia-container-runtime.log-level = \"loud\"":                  "log-level",
		"nvidia-container-runtime.modes.legacy.cuda-compat-mode = \"x\"": "use ldconfig, mount, hook or disabled",
		"[nvidia-container-cli]\nldconfig = \"/sbin/ldconfig\"":          `use "@/sbin/ldconfig", the program of the host`,
		"disable-require = true\ndisable-require = false":                "line 2: key disable-require is in line 1 already: remove one",
		// All problems are in one error.
		"disable-require = 1\nswarm-resource = 7\nnvidia-container-runtime.mode = \"x\"": `line 1: key disable-require: use true or false; line 2: key swarm-resource: use a string of words separated by commas: "…,…"; line 3: key nvidia-container-runtime.mode: "x" is not allowed`,
		"swarm-resource = 7":                  "use a string of words separated by commas",
		"[nvidia-container-cli\nroot = \"/\"": "line 1: expected ']' to close table name: correct the TOML in this line",
		"disable-require":                     "line 1: ",
		"disable-require = true x":            "line 1: ",
		"a = \"\x01\"":                        "line 1: ",
		"[nvidia-container-runtime]\nlog-level = \"info\"\nruntimes = [\"runc\"": "line 3: ",
	} {
		_, _, err := toolconfig.Parse([]byte(file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", file, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if c, _, err := toolconfig.Load(filepath.Join(dir, "none")); err != nil || !cmp.Equal(c, toolconfig.Default()) {
		t.Errorf("Load() without a file = %+v, %v, want the default", c, err)
	}
	path := filepath.Join(dir, "config.toml")
	assert.NilError(t, os.WriteFile(path, []byte("x = 1\n"), 0o600))
	if _, warnings, err := toolconfig.Load(path); err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], path+": line 1: ") {
		t.Errorf("Load() warns %q, error %v", warnings, err)
	}
	assert.NilError(t, os.WriteFile(path, []byte("= 1\n"), 0o600))
	if _, _, err := toolconfig.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load() = %v, want an error with the path", err)
	}
	if _, _, err := toolconfig.Load(dir); err == nil {
		t.Error("Load() of a folder succeeds")
	}
}

func TestPath(t *testing.T) {
	const variable, home = "NVIDIA_CTK_CONFIG_FILE_PATH", "XDG_CONFIG_HOME"
	for name, c := range map[string]struct {
		flag, beside string
		env          map[string]string
		want         string
	}{
		"nothing":       {want: "/etc/nvidia-container-runtime/config.toml"},
		"a home folder": {env: map[string]string{home: "/h"}, want: "/h/nvidia-container-runtime/config.toml"},
		"beside":        {beside: "/b", env: map[string]string{home: "/h"}, want: "/b"},
		"a variable":    {beside: "/b", env: map[string]string{home: "/h", variable: "/v"}, want: "/v"},
		"a flag":        {flag: "/f", beside: "/b", env: map[string]string{home: "/h", variable: "/v"}, want: "/f"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := toolconfig.Path(c.flag, func(k string) string { return c.env[k] }, c.beside); got != c.want {
				t.Errorf("Path() = %s, want %s", got, c.want)
			}
		})
	}
}

func TestLdconfigPath(t *testing.T) {
	for name, c := range map[string]struct{ configured, exists, want string }{
		"the default":             {"", "", "/sbin/ldconfig"},
		"a replaced ldconfig":     {"", "/sbin/ldconfig.real", "/sbin/ldconfig.real"},
		"a path of config.toml":   {"@/opt/ldconfig", "/sbin/ldconfig.real", "/opt/ldconfig"},
		"a path of the container": {"/sbin/ldconfig", "", "/sbin/ldconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (toolconfig.CLI{Ldconfig: c.configured}).LdconfigPath(func(p string) bool { return p == c.exists }); got != c.want {
				t.Errorf("LdconfigPath() = %s, want %s", got, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(toolconfig.DefaultFile())
	f.Add([]byte("a = {b = [1, {c = \"d\"}]}\n[[x.y]]\nz.\"\" = '''\n'''"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := toolconfig.Parse(data)
		if err != nil {
			return
		}
		changed, err := toolconfig.Edit(data, toolconfig.Change{Key: "nvidia-container-cli.root", Value: "/a\"\\\n"})
		if err != nil {
			// The table can be closed, and Parse accepts more than TOML allows.
			return
		}
		got, _, err := toolconfig.Parse(changed)
		c.CLI.Root = "/a\"\\\n"
		if err != nil || !cmp.Equal(c, got) {
			t.Fatalf("edit of %q gives %q: %v\n%s", data, changed, err, cmp.Diff(c, got))
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "config.toml")
	if err := os.WriteFile(path, toolconfig.DefaultFile(), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := toolconfig.Load(path); err != nil {
			b.Fatal(err)
		}
	}
}
