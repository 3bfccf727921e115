package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/cause"
)

func TestEachErrorOfLoadingIsACause(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		policy policy
		log    string
		code   cause.Code
		text   string
	}{
		"a symbol is missing":               {unix.ENOENT, policy{}, "vxlan: Unknown symbol udp_sock_create4 (err -2)", cause.ModuleDependencyMissing, `log: "vxlan: Unknown symbol udp_sock_create4 (err -2)"`},
		"a symbol is missing, without log":  {unix.ENOENT, policy{}, "", cause.ModuleDependencyMissing, "neither the kernel nor"},
		"the module says ENOENT itself":     {unix.ENOENT, policy{}, "nvidia: no firmware", cause.ModuleInitFailed, "failed (ENOENT)"},
		"no hardware":                       {unix.ENODEV, policy{}, "NVRM: No NVIDIA GPU found.", cause.ModuleFoundNoDevice, "No NVIDIA GPU found"},
		"no address":                        {unix.ENXIO, policy{}, "", cause.ModuleFoundNoDevice, "no device"},
		"a bad value":                       {unix.EINVAL, policy{}, "dummy: `x' invalid for parameter `numdummies'", cause.ModuleParameterInvalid, "rejects a parameter"},
		"a value out of range":              {unix.ERANGE, policy{}, "dummy: `9' invalid for parameter `numdummies'", cause.ModuleParameterInvalid, "rejects a parameter"},
		"a text too long":                   {unix.ENOSPC, policy{}, "dummy: `9' too large for parameter `text'", cause.ModuleParameterInvalid, "rejects a parameter"},
		"EINVAL without log":                {unix.EINVAL, policy{}, "", cause.ModuleParameterInvalid, "(EINVAL)"},
		"EINVAL of the module itself":       {unix.EINVAL, policy{}, "nvidia: cannot register", cause.ModuleInitFailed, "failed (EINVAL)"},
		"another version of a symbol":       {unix.EINVAL, policy{}, "a: disagrees about version of symbol _printk", cause.ModuleSymbolMismatch, "other versions of symbols"},
		"another version of the layout":     {unix.ENOEXEC, policy{}, "a: disagrees about version of symbol module_layout", cause.ModuleSymbolMismatch, "other versions of symbols"},
		"a symbol that is there already":    {unix.ENOEXEC, policy{}, "a: exports duplicate symbol b (owned by c)", cause.ModuleAlreadyLoaded, "owned by c"},
		"loaded already":                    {unix.EEXIST, policy{}, "", cause.ModuleAlreadyLoaded, "of this name"},
		"no module":                         {unix.ENOEXEC, policy{}, "", cause.ModuleFormatInvalid, "does not accept the file"},
		"no key":                            {unix.EKEYREJECTED, policy{enforced: true}, "", cause.ModuleSignatureRejected, "signed by a key"},
		"no key, of an older kernel":        {unix.ENOKEY, policy{enforced: true}, "", cause.ModuleSignatureRejected, "signed by a key"},
		"a signature of noise":              {unix.EBADMSG, policy{}, "", cause.ModuleSignatureRejected, "EBADMSG"},
		"a hash that the kernel lacks":      {unix.ENOPKG, policy{}, "", cause.ModuleSignatureRejected, "ENOPKG"},
		"locked down":                       {unix.EPERM, policy{lockdown: true}, "Lockdown: app: unsigned module loading is restricted; see man kernel_lockdown.7", cause.ModuleSignatureRejected, "locked down"},
		"locked down, as the log says":      {unix.EPERM, policy{}, "Lockdown: app: unsigned module loading is restricted; see man kernel_lockdown.7", cause.ModuleSignatureRejected, "locked down"},
		"a namespace that it lacks":         {unix.EINVAL, policy{}, "module a uses symbol b from namespace C, but does not import it.", cause.ModuleSymbolMismatch, "namespace"},
		"not root":                          {unix.EPERM, policy{}, "", cause.ModuleNotPermitted, "may not load"},
		"modules disabled":                  {unix.EPERM, policy{lockdown: true, closed: true}, "", cause.ModuleNotPermitted, "modules_disabled"},
		"a security module forbids it":      {unix.EACCES, policy{}, "", cause.ModuleNotPermitted, "security module"},
		"no memory":                         {unix.ENOMEM, policy{}, "", cause.ModuleNoMemory, "out of memory"},
		"a kernel without modules":          {unix.ENOSYS, policy{}, "", cause.ModuleNotPermitted, "CONFIG_MODULES"},
		"a dependency hangs":                {unix.EBUSY, policy{}, "a: gave up waiting for init of module b.", cause.ModuleInitFailed, "gave up waiting"},
		"a form that the kernel lacks":      {unix.ENOTSUP, policy{}, "", cause.ModuleInitFailed, "(E"},
		"an error that has no name in unix": {unix.Errno(4000), policy{}, "", cause.ModuleInitFailed, "errno 4000"},
	} {
		t.Run(name, func(t *testing.T) {
			got := loadCause("a", tc.err, tc.policy, tc.log)
			if got.Code != tc.code || !strings.Contains(got.Text, tc.text) || got.Subject != "module a" || got.Fix == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPeermemWithoutSymbolsIsNoWrongParameter(t *testing.T) {
	for name, tc := range map[string]struct {
		module string
		err    error
		log    string
		code   cause.Code
	}{
		"peermem, which says nothing":        {"nvidia_peermem", unix.EINVAL, "", cause.RDMAUnavailable},
		"peermem, built for another ib_core": {"nvidia_peermem", unix.EINVAL, "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client", cause.ModuleSymbolMismatch},
		"peermem, with a parameter":          {"nvidia_peermem", unix.EINVAL, "nvidia_peermem: `x' invalid for parameter `peerdirect_support'", cause.ModuleParameterInvalid},
		"peermem, without memory":            {"nvidia_peermem", unix.ENOMEM, "", cause.ModuleNoMemory},
		"another module, which says nothing": {"nvidia_fs", unix.EINVAL, "", cause.ModuleParameterInvalid},
	} {
		if got := loadCause(tc.module, tc.err, policy{}, tc.log); got.Code != tc.code || got.Fix == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestEachErrorOfUnloadingIsACause(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		module    Loaded
		code      cause.Code
		text, fix string
	}{
		"a dependent holds it":     {unix.EAGAIN, Loaded{RefCount: 2, Holders: []string{"nvidia_modeset", "nvidia_uvm"}}, cause.ModuleInUse, "it is in use by the loaded modules nvidia_modeset, nvidia_uvm", "unload nvidia_modeset, nvidia_uvm first"},
		"a file is open":           {unix.EWOULDBLOCK, Loaded{RefCount: 3}, cause.ModuleInUse, "it is in use by 3 open files or other uses", "stop what uses the driver, or wait until it ends"},
		"one file is open":         {unix.EAGAIN, Loaded{RefCount: 1}, cause.ModuleInUse, "it is in use by one open file or other use", "stop what uses the driver, or wait until it ends"},
		"two modules hold it":      {unix.EAGAIN, Loaded{RefCount: 2, Holders: []string{"b", "c"}}, cause.ModuleInUse, "it is in use by the loaded modules b, c", "unload b, c first"},
		"both":                     {unix.EAGAIN, Loaded{RefCount: 3, Holders: []string{"b"}}, cause.ModuleInUse, "it is in use by the loaded module b and 2 open files or other uses", "unload b first"},
		"it is gone since":         {unix.EAGAIN, Loaded{}, cause.ModuleInUse, "it is in use", "stop what uses the driver, or wait until it ends"},
		"not loaded":               {unix.ENOENT, Loaded{}, cause.ModuleNotLoaded, "it is not loaded, or is built into the kernel", "load it, unless it must stay unloaded"},
		"being loaded":             {unix.EBUSY, Loaded{State: "coming"}, cause.ModuleInUse, `the kernel is loading or unloading it: its state is "coming"`, "wait; if it stays so, reboot the node"},
		"permanent":                {unix.EBUSY, Loaded{State: "live"}, cause.ModuleNotUnloadable, "the module does not support unloading", "reboot the node"},
		"not root":                 {unix.EPERM, Loaded{}, cause.ModuleNotPermitted, "this process may not unload modules", "run it as root with the capability CAP_SYS_MODULE, as a privileged container"},
		"a kernel without unload":  {unix.ENOSYS, Loaded{}, cause.ModuleNotUnloadable, "the kernel was built without CONFIG_MODULE_UNLOAD", "reboot the node"},
		"an error without meaning": {unix.EIO, Loaded{}, cause.ModuleNotUnloadable, "the kernel does not unload it (EIO)", "reboot the node"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.module.Name = "a"
			if got, want := unloadCause(tc.module, tc.err), (cause.Cause{Code: tc.code, Subject: "module a", Text: tc.text, Fix: tc.fix}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestExplanationIsTheRecordThatStatesTheCause(t *testing.T) {
	for name, tc := range map[string]struct {
		records []record
		want    string
	}{
		"none":                            {nil, ""},
		"another module's":                {[]record{{text: "nvidia_uvm: Unknown symbol x"}, {text: "nvidia-uvm: Unknown symbol x"}}, ""},
		"the first that states a cause":   {[]record{{text: "nvidia: hello"}, {text: "nvidia: Unknown symbol x (err -2)"}, {text: "nvidia: Unknown symbol y (err -2)"}}, "nvidia: Unknown symbol x (err -2)"},
		"all of the module":               {[]record{{text: "nvidia 0000:17:00.0: probe failed"}, {text: "NVRM: no GPU"}, {text: "usb: new device"}}, "nvidia 0000:17:00.0: probe failed; NVRM: no GPU"},
		"those of the thread":             {[]record{{text: "nvidia: hello"}, {thread: 7, text: "gpu: dead"}, {thread: 8, text: "other"}}, "nvidia: hello; gpu: dead"},
		"the last of many":                {many(100), "NVRM: 92; NVRM: 93; NVRM: 94; NVRM: 95; NVRM: 96; NVRM: 97; NVRM: 98; NVRM: 99"},
		"a taint is none":                 {[]record{{text: "nvidia: loading out-of-tree module taints kernel."}, {text: "nvidia: module verification failed: signature and/or required key missing - tainting kernel"}}, ""},
		"a lockdown's, of another's name": {[]record{{thread: 7, text: "Lockdown: agent: unsigned module loading is restricted"}, {thread: 7, text: "audit"}}, "Lockdown: agent: unsigned module loading is restricted"},
	} {
		if got := explanation(tc.records, "nvidia", 7); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// many returns records that count.
func many(n int) []record {
	var out []record
	for i := range n {
		out = append(out, record{text: fmt.Sprintf("NVRM: %d", i)})
	}
	return out
}

func TestRecordOfTheLog(t *testing.T) {
	for raw, want := range map[string]record{
		"6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n":  {text: "NET: Registered"},
		"4,340,5140901,-,caller=T12;a: \x1b[1mred; b\n":      {thread: 12, text: "a: ?[1mred; b"},
		"4,340,5140901,-,caller=C1;an interrupt's; record\n": {text: "an interrupt's; record"},
		"": {},
	} {
		if got := parseRecord(raw); got != want {
			t.Errorf("%q: %+v", raw, got)
		}
	}
}

func TestLogBeginsWhereItWasOpened(t *testing.T) {
	root := Root{Dev: t.TempDir()}
	if got := openLog(root).since(); got != nil {
		t.Errorf("a machine without log: %v", got)
	}
	path := filepath.Join(root.Dev, "kmsg")
	assert.NilError(t, os.WriteFile(path, []byte("6,1,2,-;before\n"), 0o600))
	log := openLog(root)
	defer log.close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	assert.NilError(t, err)
	defer f.Close()
	if _, err := f.WriteString("4,2,3,-;a: Unknown symbol b (err -2)\n"); err != nil {
		t.Fatal(err)
	}
	if got := log.since(); len(got) != 1 || got[0].text != "a: Unknown symbol b (err -2)" {
		t.Errorf("%+v", got)
	}
}

func TestArgumentsAreQuotedForTheKernel(t *testing.T) {
	got, err := arguments("a", []string{"answer=42", "flag", "NVreg_RegistryDwords=a=1;b=2", "words=two words", "a.b=1"})
	if want := `answer=42 flag NVreg_RegistryDwords=a=1;b=2 words="two words" a.b=1`; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, param := range []string{"--", "", "=1", "a b=1", `a="x`, "a=1\nb", "a=\x00", "a\x00=1"} {
		if got, err := arguments("a", []string{param}); err == nil {
			t.Errorf("%q became %q", param, got)
		}
	}
}
