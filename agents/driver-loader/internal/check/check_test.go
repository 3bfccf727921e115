package check_test

import (
	"debug/elf"
	"maps"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/check"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
)

const (
	release  = "6.1.0-56-cloud-amd64"
	vermagic = release + " SMP preempt mod_unload modversions"
)

func debian() kernel.Kernel {
	return kernel.Kernel{Release: release, Machine: "x86_64", Vermagic: vermagic, Lockdown: "none"}
}

func uvm() *module.Module {
	return &module.Module{
		Name: "nvidia_uvm", Vermagic: vermagic, Machine: elf.EM_X86_64, Depends: []string{"nvidia"},
		Undefined: []string{"_printk", "nvUvmInterfaceRegister"},
		Needs:     map[string]uint32{"module_layout": 7, "_printk": 1, "nvUvmInterfaceRegister": 2},
	}
}

func exported() check.Symbols {
	return check.Symbols{"module_layout": 7, "_printk": 1, "nvUvmInterfaceRegister": 2, "other": 3}
}

func codes(causes []cause.Cause) string {
	var out []string
	for _, c := range causes {
		out = append(out, string(c.Code))
	}
	return strings.Join(out, " ")
}

func TestModule(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*module.Module, *kernel.Kernel, check.Symbols)
		want    string
		says    string
		fix     string
		unknown bool
	}{
		"nothing is in the way": {},
		"another processor": {
			change: func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) { m.Machine = elf.EM_AARCH64 },
			want:   "ModuleWrongMachine", says: "it is built for aarch64, but the kernel is for x86_64", fix: "use the driver for x86_64",
		},
		"another release, with the same options": {
			change: func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) {
				m.Vermagic = "6.1.0-55-cloud-amd64 SMP preempt mod_unload modversions"
			},
			want: "ModuleWrongRelease", says: "built for the kernel 6.1.0-55-cloud-amd64, but the running kernel is " + release,
		},
		"no vermagic": {
			change: func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) { m.Vermagic = "" },
			want:   "ModuleWrongRelease", says: "no release",
		},
		"other options": {
			change: func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) {
				m.Vermagic = release + " SMP mod_unload modversions"
			},
			want: "ModuleWrongOptions", says: `"SMP preempt mod_unload modversions"`,
		},
		"options of the kernel that are not known": {
			change: func(m *module.Module, k *kernel.Kernel, _ check.Symbols) { m.Vermagic, k.Vermagic = release+" SMP", "" },
		},
		"a symbol that nothing exports": {
			change: func(_ *module.Module, _ *kernel.Kernel, s check.Symbols) { delete(s, "nvUvmInterfaceRegister") },
			want:   "ModuleDependencyMissing", says: "it needs nvUvmInterfaceRegister, which neither the kernel nor a loaded module exports", fix: "load nvidia first",
		},
		"many symbols that nothing exports": {
			change: func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) {
				m.Depends, m.Undefined = nil, []string{"a", "b", "c", "d", "e"}
			},
			want: "ModuleDependencyMissing", says: "it needs a, b, c and 2 more, which", fix: "build the module for this kernel, with the headers of exactly this kernel",
		},
		"another version of a symbol": {
			change: func(_ *module.Module, _ *kernel.Kernel, s check.Symbols) { s["_printk"] = 9 },
			want:   "ModuleSymbolMismatch", says: "than the kernel has: _printk",
		},
		"another layout": {
			change: func(_ *module.Module, _ *kernel.Kernel, s check.Symbols) { s["module_layout"] = 9 },
			want:   "ModuleSymbolMismatch", says: "than the kernel has: module_layout",
		},
		"an export without a version": {
			change: func(_ *module.Module, _ *kernel.Kernel, s check.Symbols) { s["_printk"] = 0 },
		},
		"a module without versions": {
			change: func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) { m.Needs = nil },
		},
		"symbols that are not known": {
			change:  func(m *module.Module, _ *kernel.Kernel, _ check.Symbols) { m.Undefined = []string{"gone"} },
			unknown: true,
		},
		"several": {
			change: func(m *module.Module, k *kernel.Kernel, _ check.Symbols) {
				m.Machine, m.Vermagic, k.SigEnforce = elf.EM_S390, "5.10.0 SMP", true
			},
			want: "ModuleWrongMachine ModuleWrongRelease ModuleUnsigned",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, k, s := uvm(), debian(), exported()
			if tc.change != nil {
				tc.change(m, &k, s)
			}
			if tc.unknown {
				s = nil
			}
			got := check.Module(m, k, nil, s)
			if codes(got) != tc.want {
				t.Fatalf("%+v, want %s", got, tc.want)
			}
			if len(got) > 0 && (!strings.Contains(got[0].Text, tc.says) || got[0].Subject != "module nvidia_uvm" || got[0].Fix == "" || tc.fix != "" && got[0].Fix != tc.fix) {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

func TestSignature(t *testing.T) {
	const id = "43044b8487970fb575b9353bd2f5fc2bdd9b2d2a"
	byKey := &module.Signature{ByKey: true, KeyID: id}
	byIssuer := &module.Signature{Signer: "My key", KeyID: "01"}
	for name, tc := range map[string]struct {
		signature *module.Signature
		kernel    kernel.Kernel
		want      string
	}{
		"no signature, none demanded":                {nil, kernel.Kernel{Lockdown: "none"}, ""},
		"no signature, lockdown not known":           {nil, kernel.Kernel{}, ""},
		"no signature, sig_enforce":                  {nil, kernel.Kernel{SigEnforce: true}, "it is not signed, but the kernel requires signatures: module.sig_enforce is set"},
		"no signature, locked down":                  {nil, kernel.Kernel{Lockdown: "integrity"}, "it is not signed, but the kernel requires signatures: it is locked down (integrity), as with Secure Boot"},
		"a key that the kernel has":                  {byKey, kernel.Kernel{SigEnforce: true, Keys: []kernel.Key{{Name: "a", ID: "00"}, {Name: "My key", ID: id}}}, ""},
		"a key that the kernel lacks":                {byKey, kernel.Kernel{SigEnforce: true, Keys: []kernel.Key{{Name: "a", ID: "00"}}}, "it is signed by the key " + id + ", which is in none of the kernel's keyrings, but the kernel requires trusted signatures: module.sig_enforce is set"},
		"a key that the kernel lacks, none demanded": {byKey, kernel.Kernel{Keys: []kernel.Key{}}, ""},
		"keys that cannot be read":                   {byKey, kernel.Kernel{SigEnforce: true}, ""},
		"an issuer is left to the kernel":            {byIssuer, kernel.Kernel{SigEnforce: true, Keys: []kernel.Key{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := uvm()
			m.Signature = tc.signature
			tc.kernel.Release, tc.kernel.Machine = release, "x86_64"
			got := check.Module(m, tc.kernel, nil, exported())
			if tc.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || got[0].Text != tc.want || !strings.Contains(got[0].Fix, "mokutil --import") {
				t.Errorf("%+v, want %q", got, tc.want)
			}
		})
	}
}

func TestSymvers(t *testing.T) {
	got, err := check.ParseSymvers(strings.NewReader("0x92997ed8\t_printk\tvmlinux\tEXPORT_SYMBOL\t\n0x00000000\tnv_get\tnvidia\tEXPORT_SYMBOL_GPL\tNS\n\n"))
	if want := (check.Symbols{"_printk": 0x92997ed8, "nv_get": 0}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, broken := range []string{"<html>", "0x1\n", "0x1\tname\n", "zz\tname\tvmlinux\tX\n", "0x100000000\tname\tvmlinux\tX\n", "0x1\t\tvmlinux\tX\n", strings.Repeat("x", 1<<20)} {
		if got, err := check.ParseSymvers(strings.NewReader(broken)); err == nil {
			t.Errorf("%.20q became %v", broken, got)
		}
	}
}

func FuzzParseSymvers(f *testing.F) {
	f.Add("0x92997ed8\t_printk\tvmlinux\tEXPORT_SYMBOL\t\n")
	f.Fuzz(func(t *testing.T, data string) {
		got, err := check.ParseSymvers(strings.NewReader(data))
		if _, empty := got[""]; err == nil && empty {
			t.Error("a symbol has no name")
		}
	})
}

func TestParameters(t *testing.T) {
	m := uvm()
	for _, kind := range []string{
		"bool", "bint", "invbool", "byte", "short", "ushort", "int", "uint", "hexint", "long", "ulong", "ullong", "charp", "string",
		"array of int", "array of charp", "own",
	} {
		m.Params = append(m.Params, module.Param{Name: "p_" + strings.ReplaceAll(kind, " ", "_"), Type: kind})
	}
	m.Params = append(m.Params, module.Param{Name: "NVreg_EnableGpuFirmware", Type: "int"}, module.Param{Name: "untyped"})
	for _, param := range []string{
		"p_bool", "p_bool=y", "p_bool=N", "p_bool=1", "p_bool=off", "p_bool=On", "p_bint", "p_bint=0", "p_invbool=1",
		"p_byte=255", "p_byte=0xff", "p_short=-32768", "p_ushort=65535", "p_int=-1", "p_int=+1", "p_int=0x7fffffff", "p_int=0777",
		"p_uint=4294967295", "p_uint=+1", "p_hexint=0xFFFFFFFF", "p_long=-9223372036854775808", "p_ulong=18446744073709551615", "p_ullong=0",
		"p_charp=", "p_charp=PerfLevelSrc=0x2222;RMX=1", "p_string=a b", "p_array_of_int=1,-2,0x3", "p_array_of_charp=a,,b",
		"p-int=1", "p_own=anything", "p_own", "untyped=1", "dyndbg=+p", "async_probe", "async_probe=1", "NVreg_EnableGpuFirmware=18",
	} {
		if got := check.Module(m, debian(), []string{param}, nil); len(got) > 0 {
			t.Errorf("%s: %+v", param, got)
		}
	}
	for param, want := range map[string]string{
		"p_bool=":                              `type bool, and "" is not valid: y or n is expected`,
		"p_bool=2":                             "y or n is expected",
		"p_invbool":                            "y or n is expected",
		"p_byte=256":                           "does not fit into 8 bits",
		"p_byte=-1":                            "a whole number is expected",
		"p_short=32768":                        "does not fit into 16 bits",
		"p_int=2147483648":                     "does not fit into 32 bits",
		"p_int=":                               "a whole number is expected",
		"p_int":                                "a whole number is expected",
		"p_int=1_000":                          "a whole number is expected",
		"p_int=0b1":                            "a whole number is expected",
		"p_int=08":                             "a whole number is expected",
		"p_int= 1":                             "a whole number is expected",
		"p_int=1 ":                             "a whole number is expected",
		"p_int=abc":                            "a whole number is expected",
		"p_uint=4294967296":                    "does not fit into 32 bits",
		"p_hexint=ff":                          "a whole number is expected",
		"p_ulong=18446744073709551616":         "does not fit into 64 bits",
		"p_charp":                              "it needs a value",
		"p_charp=" + strings.Repeat("x", 1025): "more than 1024 bytes",
		"p_array_of_int":                       "it needs a value",
		"p_array_of_int=1,x":                   "a whole number is expected",
		"p_array_of_int=1,":                    "a whole number is expected",
	} {
		got := check.Module(m, debian(), []string{param}, nil)
		if codes(got) != "ModuleParameterInvalid" || !strings.Contains(got[0].Text, want) || !strings.HasPrefix(got[0].Fix, "correct the value of p_") {
			t.Errorf("%.40s: %+v, want %q", param, got, want)
		}
	}
	for param, fix := range map[string]string{
		"EnableGpuFirmware=1":       "write NVreg_EnableGpuFirmware",
		"nvreg_enablegpufirmware=1": "write NVreg_EnableGpuFirmware",
		"NVreg_EnableGpuFirmwar=1":  "correct or remove it: modinfo -p lists the parameters",
		"":                          "correct or remove it: modinfo -p lists the parameters",
		"\x1b[1m=1":                 "correct or remove it: modinfo -p lists the parameters",
	} {
		got := check.Module(m, debian(), []string{param}, nil)
		if codes(got) != "ModuleParameterUnknown" || got[0].Fix != fix || strings.Contains(got[0].Text, "\x1b") {
			t.Errorf("%q: %+v, want %q", param, got, fix)
		}
	}
	if !slices.ContainsFunc(m.Params, func(p module.Param) bool { return p.Name == "p_own" }) || len(m.Params) != 19 {
		t.Error("the check changed the parameters of the module")
	}
}
