package request_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

const (
	visible = "NVIDIA_VISIBLE_DEVICES"
	uuid    = "GPU-11111111-2222-3333-4444-555555555555"
	all     = "compat32,compute,display,graphics,ngx,utility,video"
)

// derive returns the request of a container with these variables.
func derive(t *testing.T, cfg *toolconfig.Config, c request.Container, env ...string) *request.Request {
	t.Helper()
	c.Env = request.Environment(env)
	r, err := request.Derive(c, cfg)
	assert.NilError(t, err)
	return r
}

// ids returns the devices as a spec has them.
func ids(r *request.Request) []string {
	var out []string
	if r.None {
		out = append(out, "none")
	}
	for _, d := range slices.Concat(r.Devices, r.Extra(), r.Optional()) {
		out = append(out, d.Kind+"="+strings.Join(d.Names, "|"))
	}
	return out
}

// said reports whether a decision mentions all words.
func said(r *request.Request, words ...string) bool {
	for _, d := range r.Decisions {
		text, found := d.About+": "+d.Result+" ("+d.Reason+")", 0
		for _, w := range words {
			if strings.Contains(text, w) {
				found++
			}
		}
		if found == len(words) {
			return true
		}
	}
	return false
}

func TestDevicesOfVariables(t *testing.T) {
	const gpu = "nvidia.com/gpu="
	for name, c := range map[string]struct {
		env  []string
		want []string
	}{
		"no variable":                   {nil, nil},
		"an empty one":                  {[]string{visible + "="}, nil},
		"void":                          {[]string{visible + "=void"}, nil},
		"a list with void":              {[]string{visible + "=0,void"}, nil},
		"all":                           {[]string{visible + "=all"}, []string{gpu + "all"}},
		"none":                          {[]string{visible + "=none"}, []string{"none"}},
		"none beside a GPU":             {[]string{visible + "=none,0"}, []string{gpu + "0"}},
		"indices":                       {[]string{visible + "=0, 1,,"}, []string{gpu + "0", gpu + "1"}},
		"a MIG device":                  {[]string{visible + "=0:1"}, []string{gpu + "0:1"}},
		"a UUID":                        {[]string{visible + "=" + uuid}, []string{gpu + uuid}},
		"a PCI bus ID":                  {[]string{visible + "=00000000:0A:00.0"}, []string{gpu + "00000000:0a:00.0|0000:0a:00.0"}},
		"a short PCI bus ID":            {[]string{visible + "=0000:07:00.0"}, []string{gpu + "00000000:07:00.0|0000:07:00.0"}},
		"a PCI bus ID without domain":   {[]string{visible + "=07:00.0"}, []string{gpu + "00000000:07:00.0|0000:07:00.0"}},
		"a CDI name":                    {[]string{visible + "=site.example/gpu=all"}, []string{"site.example/gpu=all"}},
		"a CDI name of a made spec":     {[]string{visible + "=runtime.nvidia.com/gpu=0"}, []string{gpu + "0"}},
		"a name of another strategy":    {[]string{visible + "=mig1:0"}, []string{gpu + "mig1:0"}},
		"a discovery mode":              {[]string{visible + "=mode=gds"}, []string{"nvidia.com/gds=all"}},
		"a discovery mode with an id":   {[]string{visible + "=mode=imex,id=3"}, []string{"nvidia.com/imex-channel=channel3|3"}},
		"a discovery mode with a name":  {[]string{visible + "=mode=imex,id=channel3"}, []string{"nvidia.com/imex-channel=channel3|3"}},
		"a mode of the GPUs":            {[]string{visible + "=mode=nvml,id=1"}, []string{gpu + "1"}},
		"the last of two variables":     {[]string{visible + "=all", visible + "=1"}, []string{gpu + "1"}},
		"a legacy image":                {[]string{"CUDA_VERSION=9.0.176"}, []string{gpu + "all"}},
		"a legacy image with void":      {[]string{"CUDA_VERSION=9.0.176", visible + "=void"}, nil},
		"no legacy image":               {[]string{"CUDA_VERSION=12.4.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}, nil},
		"optional hardware":             {[]string{visible + "=0", "NVIDIA_GDS=enabled", "NVIDIA_MOFED=yes", "NVIDIA_NVSWITCH=enabled"}, []string{gpu + "0", "nvidia.com/gds=all", "nvidia.com/nvswitch=all"}},
		"optional hardware without GPU": {[]string{"NVIDIA_GDS=enabled", "NVIDIA_IMEX_CHANNELS=0"}, nil},
		"IMEX channels":                 {[]string{visible + "=all", "NVIDIA_IMEX_CHANNELS=0,channel12,0"}, []string{gpu + "all", "nvidia.com/imex-channel=channel0|0", "nvidia.com/imex-channel=channel12|12"}},
		"all IMEX channels":             {[]string{visible + "=all", "NVIDIA_IMEX_CHANNELS=all"}, []string{gpu + "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := derive(t, toolconfig.Default(), request.Container{}, c.env...)
			if d := cmp.Diff(c.want, ids(r)); d != "" {
				t.Errorf("devices (-want +got):\n%s", d)
			}
			if r.GPU() != (c.want != nil) || len(r.Decisions) == 0 {
				t.Errorf("GPU() = %v, decisions %v", r.GPU(), r.Decisions)
			}
		})
	}
}

func TestVariablesThatReplaceTheDevices(t *testing.T) {
	cfg := toolconfig.Default()
	cfg.SwarmResources = []string{"DOCKER_RESOURCE_GPU", "DOCKER_RESOURCE_MIG"}
	r := derive(t, cfg, request.Container{}, visible+"=all", "DOCKER_RESOURCE_MIG=0:1", "DOCKER_RESOURCE_GPU=1,2")
	if d := cmp.Diff([]string{"nvidia.com/gpu=1", "nvidia.com/gpu=2", "nvidia.com/gpu=0:1"}, ids(r)); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
	if r := derive(t, cfg, request.Container{}, visible+"=all"); len(r.Devices) != 1 {
		t.Errorf("without such a variable, devices are %v", r.Devices)
	}
}

func TestSourcesInOrder(t *testing.T) {
	mount := func(names ...string) (out []request.Mount) {
		for _, n := range names {
			out = append(out, request.Mount{Source: "/dev/null", Destination: "/var/run/nvidia-container-devices/" + n})
		}
		return out
	}
	annotations := map[string]string{"cdi.k8s.io/b": "nvidia.com/gpu=2,nvidia.com/gpu=1", "cdi.k8s.io/a": "nvidia.com/gpu=1", "other.io/c": "nvidia.com/gpu=9"}
	for name, c := range map[string]struct {
		container request.Container
		accept    bool
		want      []string
	}{
		"annotations":                       {request.Container{Annotations: annotations, Mounts: mount("3")}, true, []string{"nvidia.com/gpu=1", "nvidia.com/gpu=2"}},
		"mounts":                            {request.Container{Mounts: mount("3", "cdi/nvidia.com/gpu/4", "cdi/nvidia.com/gpu=5", "imex/7", "3")}, true, []string{"nvidia.com/gpu=3", "nvidia.com/gpu=4", "nvidia.com/gpu=5", "nvidia.com/imex-channel=channel7|7"}},
		"mounts that are not accepted":      {request.Container{Mounts: mount("3")}, false, []string{"nvidia.com/gpu=0"}},
		"a mount of another file":           {request.Container{Mounts: []request.Mount{{Source: "/etc", Destination: "/var/run/nvidia-container-devices/3"}}}, true, []string{"nvidia.com/gpu=0"}},
		"a mount beside the folder":         {request.Container{Mounts: []request.Mount{{Source: "/dev/null", Destination: "/var/run/nvidia-container-devices/../3"}}}, true, []string{"nvidia.com/gpu=0"}},
		"an IMEX channel is no GPU request": {request.Container{Mounts: mount("imex/7")}, true, []string{"nvidia.com/gpu=0", "nvidia.com/imex-channel=channel7|7"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := toolconfig.Default()
			cfg.AcceptMounts = c.accept
			if d := cmp.Diff(c.want, ids(derive(t, cfg, c.container, visible+"=0"))); d != "" {
				t.Errorf("devices (-want +got):\n%s", d)
			}
		})
	}
}

func TestVariablesOfUnprivilegedContainers(t *testing.T) {
	cfg := toolconfig.Default()
	cfg.AcceptVariable = false
	const key = "accept-nvidia-visible-devices-envvar-when-unprivileged"
	for _, value := range []string{"all", "none", "nvidia.com/gpu=all"} {
		if r := derive(t, cfg, request.Container{}, visible+"="+value); r.GPU() || !said(r, key, value) {
			t.Errorf("%s gives %v, and says %v", value, ids(r), r.Decisions)
		}
		if r := derive(t, cfg, request.Container{Privileged: true}, visible+"="+value); !r.GPU() {
			t.Errorf("%s in a privileged container gives %v", value, r.Decisions)
		}
	}
	if r := derive(t, cfg, request.Container{}, "CUDA_VERSION=9.0"); r.GPU() {
		t.Errorf("a legacy image gets %v", ids(r))
	}
	// An allocation that is ignored would start a container without its GPU.
	const fix = " is false in config.toml: set it to true (acceptVisibleDevicesEnvvar in the chart container-toolkit), or"
	for _, value := range []string{uuid, "MIG-1", "0," + uuid, "0", "0:1", "all,1", "0000:07:00.0"} {
		_, err := request.Derive(request.Container{Env: map[string]string{visible: value}}, cfg)
		if err == nil || !strings.Contains(err.Error(), key+fix) {
			t.Errorf("%s is refused with %v", value, err)
		}
	}
	cfg.AcceptAnnotations = true
	r := derive(t, cfg, request.Container{Annotations: map[string]string{"cdi.k8s.io/a": "nvidia.com/gpu=0"}}, "NVIDIA_IMEX_CHANNELS=0")
	if len(r.IMEX) > 0 || !said(r, "imex", key) {
		t.Errorf("IMEX channels are %v, decisions %v", r.IMEX, r.Decisions)
	}
}

// CRI-O copies the annotations of a pod, so that everybody who creates a pod can name GPUs in them.
func TestAnnotationsOfUnprivilegedContainers(t *testing.T) {
	const key = "accept-cdi-annotations-when-unprivileged"
	container := func(privileged bool, names string) request.Container {
		return request.Container{Annotations: map[string]string{"cdi.k8s.io/a": names}, Privileged: privileged}
	}
	refused := toolconfig.Default()
	refused.AcceptVariable = false
	accepted := toolconfig.Default()
	accepted.AcceptVariable, accepted.AcceptAnnotations = false, true
	for _, names := range []string{"nvidia.com/gpu=all", "nvidia.com/gpu=none", "all"} {
		if r := derive(t, refused, container(false, names)); r.GPU() || !said(r, key) {
			t.Errorf("%s gives %v, and says %v", names, ids(r), r.Decisions)
		}
	}
	for _, names := range []string{"nvidia.com/gpu=0", "nvidia.com/gpu=all,nvidia.com/gpu=" + uuid, "0", "example.com/class=device"} {
		if _, err := request.Derive(container(false, names), refused); err == nil || !strings.Contains(err.Error(), key+" is false in config.toml: let the device plugin") {
			t.Errorf("%s is refused with %v", names, err)
		}
	}
	for what, r := range map[string]*request.Request{
		"a privileged container": derive(t, refused, container(true, "nvidia.com/gpu=all")),
		"accepted annotations":   derive(t, accepted, container(false, "nvidia.com/gpu=all")),
		"accepted variables":     derive(t, toolconfig.Default(), container(false, "nvidia.com/gpu=all")),
		"a variable beside them": derive(t, toolconfig.Default(), container(false, "nvidia.com/gpu=all"), visible+"=void"),
	} {
		if len(r.Devices) != 1 {
			t.Errorf("%s gives %v", what, r.Decisions)
		}
	}
	if r := derive(t, accepted, request.Container{}, visible+"=all"); r.GPU() {
		t.Errorf("a variable gives %v where only annotations are accepted", ids(r))
	}
}

func TestCapabilities(t *testing.T) {
	const name = "NVIDIA_DRIVER_CAPABILITIES"
	for what, c := range map[string]struct {
		env  []string
		want string
		set  bool
	}{
		"no variable":                      {nil, "compute,utility", false},
		"an empty one":                     {[]string{name + "="}, "compute,utility", false},
		"some":                             {[]string{name + "=video, utility,utility"}, "utility,video", true},
		"all":                              {[]string{name + "=all"}, all, true},
		"all in a list":                    {[]string{name + "=compute,all"}, all, true},
		"a legacy image":                   {[]string{"CUDA_VERSION=9.0"}, all, false},
		"a legacy image with the variable": {[]string{"CUDA_VERSION=9.0", name + "="}, "compute,utility", false},
	} {
		t.Run(what, func(t *testing.T) {
			r := derive(t, toolconfig.Default(), request.Container{}, append(c.env, visible+"=all")...)
			if got := strings.Join(r.Capabilities, ","); got != c.want || r.CapabilitiesSet != c.set {
				t.Errorf("capabilities are %s, set %v, want %s, %v", got, r.CapabilitiesSet, c.want, c.set)
			}
		})
	}
	cfg := toolconfig.Default()
	cfg.Capabilities = []string{"video", "utility"}
	if got := derive(t, cfg, request.Container{}, visible+"=all").Capabilities; len(got) != 1 || got[0] != "utility" {
		t.Errorf("the default of the supported ones is %v", got)
	}
	if got := derive(t, cfg, request.Container{}, visible+"=all", name+"=all").Capabilities; strings.Join(got, ",") != "utility,video" {
		t.Errorf("all of the supported ones are %v", got)
	}
}

func TestRequirements(t *testing.T) {
	env := []string{visible + "=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4", "NVIDIA_REQUIRE_ARCH=arch>=8.0", "NVIDIA_REQUIRE_JETPACK=csv-mounts=all", "NVIDIA_REQUIRE_EMPTY= "}
	want := []request.Requirement{{"NVIDIA_REQUIRE_ARCH", "arch>=8.0"}, {"NVIDIA_REQUIRE_CUDA", "cuda>=12.4"}}
	if d := cmp.Diff(want, derive(t, toolconfig.Default(), request.Container{}, env...).Requirements); d != "" {
		t.Errorf("requirements (-want +got):\n%s", d)
	}
	for value, ignored := range map[string]bool{"true": true, "1": true, "false": false, "perhaps": false} {
		r := derive(t, toolconfig.Default(), request.Container{}, append(env, "NVIDIA_DISABLE_REQUIRE="+value)...)
		if (len(r.Requirements) == 0) != ignored || said(r, "NVIDIA_DISABLE_REQUIRE") != ignored {
			t.Errorf("with NVIDIA_DISABLE_REQUIRE=%s, requirements are %v", value, r.Requirements)
		}
	}
	cfg := toolconfig.Default()
	cfg.DisableRequire = true
	if r := derive(t, cfg, request.Container{}, env...); len(r.Requirements) > 0 || !said(r, "disable-require") {
		t.Errorf("with disable-require, requirements are %v", r.Requirements)
	}
	for version, want := range map[string]string{"9.0.176": "cuda>=9.0", "10": "cuda>=10.0", "v11.2": "cuda>=11.2", "9.0.1.2": "cuda>=9.0"} {
		r := derive(t, toolconfig.Default(), request.Container{}, "CUDA_VERSION="+version)
		if d := cmp.Diff([]request.Requirement{{"CUDA_VERSION", want}}, r.Requirements); d != "" {
			t.Errorf("legacy image of %s (-want +got):\n%s", version, d)
		}
	}
}

func TestMIGRights(t *testing.T) {
	env := []string{visible + "=all", "NVIDIA_MIG_CONFIG_DEVICES=all", "NVIDIA_MIG_MONITOR_DEVICES=all"}
	got := ids(derive(t, toolconfig.Default(), request.Container{Privileged: true}, env...))
	if d := cmp.Diff([]string{"nvidia.com/gpu=all", "management.nvidia.com/mig=config", "management.nvidia.com/mig=monitor"}, got); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
}

// The management kind has the capability nodes of MIG, for which a container needs the same
// right as for NVIDIA_MIG_CONFIG_DEVICES.
func TestTheManagementKindNeedsAPrivilegedContainer(t *testing.T) {
	const name = "management.nvidia.com/gpu=all"
	for what, c := range map[string]request.Container{
		"a variable":    {Env: map[string]string{visible: name}},
		"a mode":        {Env: map[string]string{visible: "mode=management"}},
		"an annotation": {Annotations: map[string]string{"cdi.k8s.io/a": name}},
		"a mount":       {Mounts: []request.Mount{{Source: "/dev/null", Destination: "/var/run/nvidia-container-devices/cdi/" + name}}},
	} {
		cfg := toolconfig.Default()
		cfg.AcceptMounts = true
		if _, err := request.Derive(c, cfg); err == nil || !strings.Contains(err.Error(), name+" allows changes of the GPUs of all containers") {
			t.Errorf("%s gives %v, want that it is refused", what, err)
		}
		c.Privileged = true
		if r, err := request.Derive(c, cfg); err != nil || len(r.Devices) != 1 || r.Devices[0].Kind != "management.nvidia.com/gpu" {
			t.Errorf("%s in a privileged container gives %v, %v", what, r, err)
		}
	}
}

func TestDeriveRejects(t *testing.T) {
	// What an image has in its variables is work for the host.
	long := strings.Repeat("0,", 50_000)
	for variable, want := range map[string]string{
		visible + "=GPU 0":                             "not an index, UUID, PCI bus ID or CDI name",
		visible + "=../x":                              "not an index, UUID",
		visible + "=-1":                                "not an index, UUID",
		visible + "=a b/gpu=0":                         "invalid",
		visible + "=MIG-GPU-1/2":                       "not an index, UUID",
		visible + "=MIG-" + uuid + "/2/x":              "not an index, UUID",
		visible + "=mode=magic":                        "unknown mode",
		visible + "=mode=imex":                         "not an IMEX channel",
		visible + "=/var/run/nvidia-container-devices": "accept-nvidia-visible-devices-as-volume-mounts is false",
		"NVIDIA_DRIVER_CAPABILITIES=compute,cooking":   `has "cooking": use all, or any of compat32, compute`,
		"NVIDIA_MIG_CONFIG_DEVICES=all":                "needs a privileged container",
		"NVIDIA_MIG_MONITOR_DEVICES=0":                 "the only value is all",
		"NVIDIA_IMEX_CHANNELS=1,-1":                    `"-1" is not an IMEX channel`,
		"NVIDIA_IMEX_CHANNELS=A,B":                     `"A" is not an IMEX channel`,
		"NVIDIA_IMEX_CHANNELS=1048576":                 "not an IMEX channel",
		"CUDA_VERSION=new":                             "CUDA_VERSION=new is not a version",
		visible + "=" + long:                           "NVIDIA_VISIBLE_DEVICES has 100000 bytes: at most 65536 are accepted",
		"NVIDIA_REQUIRE_X=" + long:                     "NVIDIA_REQUIRE_X has 100000 bytes",
		"NVIDIA_IMEX_CHANNELS=" + long:                 "NVIDIA_IMEX_CHANNELS has 100000 bytes",
	} {
		env := request.Environment([]string{visible + "=all", variable})
		if _, err := request.Derive(request.Container{Env: env}, toolconfig.Default()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s gives %v, want %q", variable, err, want)
		}
	}
}

func TestOf(t *testing.T) {
	spec, err := oci.Parse([]byte(`{"process":{"env":["A=1","A=2","B"],"capabilities":["CAP_SYS_ADMIN"]},"mounts":[{"source":"/a","destination":"/b"}],"annotations":{"c":"d"}}`))
	assert.NilError(t, err)
	want := request.Container{
		Env: map[string]string{"A": "2"}, Mounts: []request.Mount{{"/a", "/b"}}, Annotations: map[string]string{"c": "d"}, Privileged: true,
	}
	if d := cmp.Diff(want, request.FromSpec(spec)); d != "" {
		t.Errorf("container (-want +got):\n%s", d)
	}
}

func TestMode(t *testing.T) {
	const auto, jit, cdi, legacy = toolconfig.ModeAuto, toolconfig.ModeJITCDI, toolconfig.ModeCDI, toolconfig.ModeLegacy
	for name, c := range map[string]struct {
		configured, devices string
		spec                bool
		want                string
	}{
		"auto with a spec":                {auto, "0", true, cdi},
		"auto without a spec":             {auto, "0", false, legacy},
		"auto with a CDI name":            {auto, "a.b/c=d", false, cdi},
		"cdi":                             {cdi, "0", false, cdi},
		"jit-cdi with a spec":             {jit, "0", true, cdi},
		"jit-cdi without a spec":          {jit, "0", false, legacy},
		"jit-cdi with a CDI name":         {jit, "a.b/c=d", false, cdi},
		"auto with a name of old drivers": {auto, "MIG-" + uuid + "/1/0", true, legacy},
		"cdi with a name of old drivers":  {cdi, "MIG-" + uuid + "/1/0", true, cdi},
		"legacy with a spec":              {legacy, "0", true, legacy},
		"csv":                             {toolconfig.ModeCSV, "0", true, toolconfig.ModeCSV},
	} {
		t.Run(name, func(t *testing.T) {
			r := derive(t, toolconfig.Default(), request.Container{}, visible+"="+c.devices)
			if got, why := r.Mode(c.configured, func(string) bool { return c.spec }, "nvidia.com/gpu"); got != c.want || why == "" {
				t.Errorf("Mode() = %s (%s), want %s", got, why, c.want)
			}
		})
	}
}

func FuzzDerive(f *testing.F) {
	f.Add(uuid+",0:1", "compute", "cuda>=1", "0", "/var/run/nvidia-container-devices/cdi/a/b/c", "cdi.k8s.io/x")
	f.Fuzz(func(t *testing.T, devices, capabilities, condition, channels, destination, annotation string) {
		cfg := toolconfig.Default()
		cfg.AcceptMounts = true
		r, err := request.Derive(request.Container{
			Env: map[string]string{
				visible: devices, "NVIDIA_DRIVER_CAPABILITIES": capabilities, "NVIDIA_REQUIRE_X": condition, "NVIDIA_IMEX_CHANNELS": channels,
			},
			Mounts:      []request.Mount{{Source: "/dev/null", Destination: destination}},
			Annotations: map[string]string{annotation: devices},
		}, cfg)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\x00\x1b\n") {
				t.Fatalf("error is not printable: %q", err)
			}
			return
		}
		for _, d := range slices.Concat(r.Devices, r.Extra(), r.Optional()) {
			if d.Kind == "" || len(d.Names) == 0 || strings.ContainsAny(strings.Join(d.Names, ""), "/ ") {
				t.Fatalf("device %+v", d)
			}
		}
	})
}
