package payload

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

func FuzzManifest(f *testing.F) {
	f.Add("NVIDIA\n580.1\n\n\n\n\n\n\nnvidia-smi 0755 UTILITY_BINARY MODULE:nvml\nlib/x.so 0000 CUDA_SYMLINK NATIVE / y.so\n")
	f.Add("NVIDIA\n580.1\n\n\n\n\n\n\nfirmware/gsp.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1\nx 0644 EXPLICIT_PATH ../../etc\n")
	f.Fuzz(func(t *testing.T, data string) {
		m, err := parseManifest([]byte(data))
		if err != nil {
			return
		}
		if !filepath.IsLocal(m.version) {
			t.Errorf("the version %q is no name", m.version)
		}
		for _, p := range layout(m, "x86_64") {
			if p.staysInRoot() && !strings.HasPrefix(filepath.Join("/root", p.to), "/root/") {
				t.Errorf("%+v leaves the root", p)
			}
			if p.staysInRoot() && p.target != "" && !strings.HasPrefix(filepath.Join("/root", filepath.Dir(p.to), p.target)+"/", "/root/") {
				t.Errorf("%+v leads out of the root", p)
			}
		}
	})
}

func FuzzArchive(f *testing.F) {
	f.Add(payloadtest.Run("580.95.05", "x86_64", []byte("\x1f\x8b\x08\x00")))
	f.Add(payloadtest.Run("580.95.05", "x86_64", []byte("BZh91AY&SY")))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := openArchive("x", bytes.NewReader(data))
		if err != nil {
			return
		}
		w, err := newWriter(t.TempDir(), "x", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := a.extract(w.extract); err == nil && !bytes.HasPrefix(data, []byte("#!")) {
			t.Error("took what is no script")
		}
	})
}

func TestLinesOfAManifest(t *testing.T) {
	head := "NVIDIA\n580.95.05\n\nnvidia\n\n\n./kernel/\n./kernel/precompiled/\n"
	for name, test := range map[string]struct{ line, want string }{
		"a library":                {"libnvidia-tls.so.580 0755 TLS_LIB NATIVE NEW tls/ MODULE:opengl", "usr/lib/x86_64-linux-gnu/tls/libnvidia-tls.so.580"},
		"firmware in a folder":     {"firmware/a/gsp.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1", "usr/lib/firmware/nvidia/580.95.05/a/gsp.bin"},
		"a place of its own":       {"x.bin 0644 OPENGL_DATA /usr/share/nvidia/ MODULE:x", "usr/share/nvidia/x.bin"},
		"a file for the sandbox":   {"s.json 0644 SANDBOXUTILS_FILELIST_JSON somewhere", "usr/share/nvidia/files.d/s.json"},
		"one of the desktop":       {"x.desktop 0644 DOT_DESKTOP a/", ""},
		"a template":               {"nvidia_icd.json.template 0644 VULKAN_ICD_JSON", ""},
		"32 bit":                   {"32/libx.so 0755 UTILITY_LIB COMPAT32", ""},
		"a library without a path": {"libnvidia-vgpu.so 0755 VGX_LIB", "usr/lib/x86_64-linux-gnu/libnvidia-vgpu.so"},
		"a unit of systemd":        {"nvidia-suspend.service 0000 SYSTEMD_UNIT_SYMLINK systemd-suspend.service.requires/", ""},
	} {
		m, err := parseManifest([]byte(head + test.line + "\n"))
		got := ""
		if placed := layout(m, "x86_64"); len(placed) == 1 {
			got = placed[0].to
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, text := range map[string]string{
		"no version":        "NVIDIA\nlatest\n",
		"a version upwards": "NVIDIA\n../..\n",
		"a short line":      head + "libx.so 0755\n",
		"no mode":           head + "libx.so rwx UTILITY_LIB\n",
		"no target":         head + "libx.so 0000 CUDA_SYMLINK NATIVE /\n",
		"too deep":          head + "a/x 0644 FIRMWARE INHERIT_PATH_DEPTH:5\n",
		"nothing":           "",
	} {
		if _, err := parseManifest([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
