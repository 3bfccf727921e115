package toolconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

// field points to the value of a key. Exactly one of its pointers is set.
type field struct {
	flag *bool
	text *string
	list *[]string
	// commaList is a list that the file has as one string, separated by commas.
	commaList *[]string
}

// fields returns the fields by key. It is the only list of the keys.
func (c *Config) fields() map[string]field {
	cli, rt, ft := &c.CLI, &c.Runtime, &c.Features
	return map[string]field{
		"disable-require": {flag: &c.DisableRequire},
		"swarm-resource":  {commaList: &c.SwarmResources},
		"accept-nvidia-visible-devices-envvar-when-unprivileged": {flag: &c.AcceptVariable},
		"accept-nvidia-visible-devices-as-volume-mounts":         {flag: &c.AcceptMounts},
		"accept-cdi-annotations-when-unprivileged":               {flag: &c.AcceptAnnotations},
		"supported-driver-capabilities":                          {commaList: &c.Capabilities},

		"nvidia-container-cli.root":        {text: &cli.Root},
		"nvidia-container-cli.path":        {text: &cli.Path},
		"nvidia-container-cli.environment": {list: &cli.Environment},
		"nvidia-container-cli.debug":       {text: &cli.Debug},
		"nvidia-container-cli.ldcache":     {text: &cli.LDCache},
		"nvidia-container-cli.load-kmods":  {flag: &cli.LoadKmods},
		"nvidia-container-cli.no-pivot":    {flag: &cli.NoPivot},
		"nvidia-container-cli.no-cgroups":  {flag: &cli.NoCgroups},
		"nvidia-container-cli.user":        {text: &cli.User},
		"nvidia-container-cli.ldconfig":    {text: &cli.Ldconfig},

		"nvidia-container-runtime.debug":                             {text: &rt.Debug},
		"nvidia-container-runtime.log-level":                         {text: &rt.LogLevel},
		"nvidia-container-runtime.runtimes":                          {list: &rt.Runtimes},
		"nvidia-container-runtime.mode":                              {text: &rt.Mode},
		"nvidia-container-runtime.modes.cdi.annotation-prefixes":     {list: &rt.CDI.AnnotationPrefixes},
		"nvidia-container-runtime.modes.cdi.default-kind":            {text: &rt.CDI.DefaultKind},
		"nvidia-container-runtime.modes.cdi.spec-dirs":               {list: &rt.CDI.SpecDirs},
		"nvidia-container-runtime.modes.csv.mount-spec-path":         {text: &rt.CSV.MountSpecPath},
		"nvidia-container-runtime.modes.csv.compat-container-root":   {text: &rt.CSV.CompatContainerRoot},
		"nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags": {list: &rt.JIT.FeatureFlags},
		"nvidia-container-runtime.modes.jit-cdi.nvcdi-disable-hooks": {list: &rt.JIT.DisableHooks},
		"nvidia-container-runtime.modes.legacy.cuda-compat-mode":     {text: &rt.CUDACompatMode},
		"nvidia-container-runtime-hook.path":                         {text: &c.Hook.Path},
		"nvidia-container-runtime-hook.skip-mode-detection":          {flag: &c.Hook.SkipModeDetection},
		"nvidia-ctk.path": {text: &c.CTKPath},
		"features.allow-cuda-compat-libs-from-container": {flag: &ft.AllowCUDACompatLibsFromContainer},
		"features.allow-ldconfig-from-container":         {flag: &ft.AllowLdconfigFromContainer},
		"features.allow-unknown-oci-spec-fields":         {flag: &ft.AllowUnknownOCISpecFields},
		"features.disable-cuda-compat-lib-hook":          {flag: &ft.DisableCUDACompatLibHook},
		"features.disable-imex-channel-creation":         {flag: &ft.DisableIMEXChannelCreation},
		"features.ignore-imex-channel-requests":          {flag: &ft.IgnoreIMEXChannelRequests},
		"features.no-additional-gids-for-device-nodes":   {flag: &ft.NoAdditionalGIDs},
	}
}

// set sets the field to a value from the file.
func (f field) set(value *unstable.Node) error {
	switch {
	case f.flag != nil:
		if value.Kind != unstable.Bool {
			return errors.New("use true or false")
		}
		*f.flag = string(value.Data) == "true"
	case f.text != nil:
		if value.Kind != unstable.String {
			return errors.New(`use a string: "…"`)
		}
		*f.text = string(value.Data)
	case f.commaList != nil && value.Kind == unstable.String:
		*f.commaList = SplitList(string(value.Data))
	case f.commaList != nil:
		return setList(f.commaList, value, `use a string of words separated by commas: "…,…"`)
	default:
		return setList(f.list, value, `use a list of strings: ["…"]`)
	}
	return nil
}

func setList(list *[]string, value *unstable.Node, fix string) error {
	if value.Kind != unstable.Array {
		return errors.New(fix)
	}
	*list = []string{}
	for it := value.Children(); it.Next(); {
		if it.Node().Kind != unstable.String {
			return errors.New(fix)
		}
		*list = append(*list, string(it.Node().Data))
	}
	return nil
}

// SplitList returns the items of a list that commas separate, without empty items.
func SplitList(list string) []string {
	words := strings.Split(list, ",")
	for i, w := range words {
		words[i] = strings.TrimSpace(w)
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// encode returns a value from the command line as TOML. ":" or "," separates the items of a
// list.
func (f field) encode(value string) (string, error) {
	switch {
	case f.flag != nil:
		flag, err := strconv.ParseBool(value)
		if err != nil {
			return "", fmt.Errorf("%q is neither true nor false", value)
		}
		return strconv.FormatBool(flag), nil
	case f.list != nil:
		var quoted []string
		for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ',' }) {
			quoted = append(quoted, rawtoml.String(word))
		}
		return "[" + strings.Join(quoted, ", ") + "]", nil
	default:
		return rawtoml.String(value), nil
	}
}
