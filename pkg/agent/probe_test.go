package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue(t, cert, key, 1)
	secure := []string{"--tls-cert-file", cert, "--tls-private-key-file", key}
	for name, flags := range map[string][]string{"http": nil, "https": secure} {
		t.Run(name, func(t *testing.T) {
			url, stop := serve(t, append([]string{"--fail=ready"}, flags...)...)
			defer stop()
			flags := append([]string{"--listen", strings.TrimPrefix(url, "http://")}, flags...)
			code, out, errs := run(t, append([]string{"probe", "healthz"}, flags...)...)
			if want := "inotify: ok\nnvml: ok\nok\n"; code != 0 || out != want || errs != "" {
				t.Errorf("healthz: exit code %d, %q, %q, want %q", code, out, errs, want)
			}
			code, out, errs = run(t, append([]string{"probe", "readyz"}, flags...)...)
			if want := "test-agent: probe the agent: readyz answers 503: waiting for the driver:; not loaded\n"; code != 1 || out != "" || errs != want {
				t.Errorf("readyz: exit code %d, %q, %q, want %q", code, out, errs, want)
			}
		})
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no page":      {[]string{"--listen=:1"}, 2, `arguments of probe: invalid value "": must be healthz or readyz`},
		"another page": {[]string{"metrics", "--listen=:1"}, 2, `arguments of probe: invalid value "metrics": must be healthz or readyz`},
		"two pages":    {[]string{"healthz", "readyz"}, 2, `invalid value "healthz readyz"`},
		"no address":   {[]string{"readyz"}, 2, "flag --listen (environment variable LISTEN_ADDRESS): needs a value: the address that the running agent has"},
		"bad address":  {[]string{"readyz", "--probe-address=9"}, 2, `probe-address`},
		"no agent":     {[]string{"readyz", "--listen=127.0.0.1:1"}, 1, "probe the agent: "},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, append([]string{"probe"}, tc.args...)...)
			if code != tc.code || out != "" || !strings.Contains(errs, tc.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, %q, %q, want %d and %q", code, out, errs, tc.code, tc.want)
			}
		})
	}
}
