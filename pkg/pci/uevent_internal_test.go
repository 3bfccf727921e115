package pci

import (
	"strings"
	"testing"
)

// kernelMessage is one as the kernel sends it.
func kernelMessage(head string, variables ...string) []byte {
	return []byte(strings.Join(append([]string{head}, variables...), "\x00") + "\x00")
}

func TestParseUevent(t *testing.T) {
	const path = "/devices/pci0000:00/0000:00:05.0"
	for name, c := range map[string]struct {
		message []byte
		want    uevent
		ok      bool
		counts  bool
	}{
		"a device comes": {
			kernelMessage("add@"+path, "ACTION=add", "DEVPATH="+path, "SUBSYSTEM=pci", "PCI_CLASS=30200", "PCI_ID=10DE:2330", "SEQNUM=4711"),
			uevent{"add", "pci"},
			true, true,
		},
		"a device goes":             {kernelMessage("remove@"+path, "ACTION=remove", "DEVPATH="+path, "SUBSYSTEM=pci", "SEQNUM=1"), uevent{"remove", "pci"}, true, true},
		"a driver is bound":         {kernelMessage("bind@"+path, "ACTION=bind", "DEVPATH="+path, "SUBSYSTEM=pci", "DRIVER=nvidia", "SEQNUM=1"), uevent{"bind", "pci"}, true, true},
		"a driver is freed":         {kernelMessage("unbind@"+path, "ACTION=unbind", "DEVPATH="+path, "SUBSYSTEM=pci", "SEQNUM=1"), uevent{"unbind", "pci"}, true, true},
		"a device says something":   {kernelMessage("change@"+path, "ACTION=change", "DEVPATH="+path, "SUBSYSTEM=pci", "SEQNUM=1"), uevent{"change", "pci"}, true, false},
		"another bus":               {kernelMessage("add@/devices/virtual/net/lo", "ACTION=add", "DEVPATH=/devices/virtual/net/lo", "SUBSYSTEM=net"), uevent{"add", "net"}, true, false},
		"a bus of a similar name":   {kernelMessage("add@/x", "ACTION=add", "SUBSYSTEM=pci_bus"), uevent{"add", "pci_bus"}, true, false},
		"the first one stands":      {kernelMessage("change@/x", "ACTION=change", "SUBSYSTEM=block", "SUBSYSTEM=pci", "ACTION=add"), uevent{"change", "block"}, true, false},
		"no end of the last":        {[]byte("add@/x\x00ACTION=add\x00SUBSYSTEM=pci"), uevent{"add", "pci"}, true, true},
		"no subsystem":              {kernelMessage("add@/x", "ACTION=add"), uevent{action: "add"}, false, false},
		"no action":                 {kernelMessage("add@/x", "SUBSYSTEM=pci"), uevent{subsystem: "pci"}, false, false},
		"a message of udev":         {append([]byte("libudev\x00\xfe\xed\xca\xfe"), kernelMessage("", "ACTION=add", "SUBSYSTEM=pci")...), uevent{}, false, false},
		"a head alone":              {[]byte("add@/x"), uevent{}, false, false},
		"an empty message":          {nil, uevent{}, false, false},
		"names that only end alike": {kernelMessage("add@/x", "XACTION=add", "SUBSYSTEM_=pci"), uevent{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseUevent(c.message)
			if got != c.want || ok != c.ok {
				t.Errorf("parseUevent() = %+v, %v, want %+v, %v", got, ok, c.want, c.ok)
			}
			if ok && got.counts() != c.counts {
				t.Errorf("counts() = %v, want %v", got.counts(), c.counts)
			}
		})
	}
}

func FuzzUevent(f *testing.F) {
	f.Add(kernelMessage("add@/x", "ACTION=add", "SUBSYSTEM=pci", "SEQNUM=1"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfeACTION=add\x00"))
	f.Add([]byte("@/\x00=\x00ACTION\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e, ok := parseUevent(message)
		if !ok {
			return
		}
		for _, want := range []string{"\x00ACTION=" + e.action, "\x00SUBSYSTEM=" + e.subsystem} {
			if !strings.Contains(string(message), want) {
				t.Errorf("parseUevent() = %+v, but the message has no %q", e, want)
			}
		}
		if strings.Contains(e.action+e.subsystem, "\x00") {
			t.Errorf("parseUevent() = %+v has more than a variable", e)
		}
		// The kernel's own variables stand before any others.
		again, ok := parseUevent(kernelMessage("add@/x", "ACTION="+e.action, "SUBSYSTEM="+e.subsystem, "ACTION=x", "SUBSYSTEM=y"))
		if !ok || again != e {
			t.Errorf("written again it is %+v, %v, want %+v", again, ok, e)
		}
	})
}

func TestInitialUsers(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":                   true,
		"         0     100000      65536\n":                   false,
		"         0          0      65536\n":                   false,
		"         0          0       1000\n      1000 0 65536": false,
		"": false,
	} {
		if got := initialUsers(text); got != want {
			t.Errorf("initialUsers(%q) = %v, want %v", text, got, want)
		}
	}
}
