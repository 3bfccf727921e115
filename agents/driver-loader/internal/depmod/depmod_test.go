package depmod_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/depmod"
	"outrigger.dev/pkg/cause"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestFiles(t *testing.T) {
	dir := folder(t, map[string]string{
		"modules.dep": "kernel/drivers/char/ipmi/ipmi_devintf.ko.xz: kernel/drivers/char/ipmi/ipmi_msghandler.ko.xz\n" +
			"kernel/drivers/char/ipmi/ipmi_msghandler.ko.xz:\n" +
			"kernel/net/vxlan.ko: kernel/net/ip6_udp_tunnel.ko kernel/net/udp-tunnel.ko\n" +
			"/lib/modules/1/kernel/drm/drm_kms-helper.ko.zst:\n",
		"modules.builtin": "kernel/drivers/i2c/i2c-core.ko\n",
	})
	x, err := depmod.Read(dir)
	assert.NilError(t, err)
	for name, want := range map[string]string{
		"ipmi_devintf":   "ipmi_msghandler=kernel/drivers/char/ipmi/ipmi_msghandler.ko.xz ipmi_devintf=kernel/drivers/char/ipmi/ipmi_devintf.ko.xz",
		"vxlan":          "udp_tunnel=kernel/net/udp-tunnel.ko ip6_udp_tunnel=kernel/net/ip6_udp_tunnel.ko vxlan=kernel/net/vxlan.ko",
		"i2c_core":       "",
		"drm_kms_helper": "drm_kms_helper=kernel/drm/drm_kms-helper.ko.zst",
	} {
		files, err := x.Files(name)
		var got []string
		for _, f := range files {
			got = append(got, f.Name+"="+strings.TrimPrefix(f.Path, dir+"/"))
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, d)
		}
	}
}

func TestAModuleThatIsNotInstalled(t *testing.T) {
	dir := folder(t, nil)
	x, err := depmod.Read(dir)
	assert.NilError(t, err)
	_, err = x.Files("ib_uverbs")
	var c cause.Cause
	if !errors.As(err, &c) || c.Code != cause.KernelModuleMissing || !strings.Contains(c.Error(), "module ib_uverbs: the driver needs it, but "+dir) {
		t.Error(err)
	}
}

func TestAListThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "modules.dep"), 0o700))
	if _, err := depmod.Read(dir); err == nil {
		t.Error("no error")
	}
}
