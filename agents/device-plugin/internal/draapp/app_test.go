package draapp_test

import (
	"bytes"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/device-plugin/internal/draapp"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestAppIsValid(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(draapp.App()))
	assert.NilError(t, agenttest.CheckHelp(draapp.App()))
}

func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = agent.Exec(t.Context(), draapp.App(), append([]string{"dra-plugin"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestHelp(t *testing.T) {
	_, got, _ := run(t, "--help")
	golden.Assert(t, got, "help.golden")
}

func TestWrongCommandLines(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	deep := "/" + strings.Repeat("d", 86)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no node":                                     {nil, 2, "flag --node-name is not set"},
		"a relative folder":                           {[]string{"--node-name=n", "--cdi-root=cdi"}, 2, "flag --cdi-root (environment variable CDI_ROOT): invalid value"},
		"a folder too deep for sockets":               {[]string{"--node-name=n", "--kubelet-plugins-dir=" + deep}, 2, "flag --kubelet-plugins-dir (environment variable KUBELET_PLUGINS_DIR): path " + deep + "/gpu.nvidia.com/dra.sock has 111 bytes, but the path of a unix socket has at most 107: use a shorter path"},
		"a folder too deep for registration":          {[]string{"--node-name=n", "--kubelet-registry-dir=" + deep + "/deep"}, 2, "flag --kubelet-registry-dir (environment variable KUBELET_REGISTRY_DIR): path " + deep + "/deep/gpu.nvidia.com-reg.sock has 116 bytes"},
		"a folder too deep for sockets named by pods": {[]string{"--node-name=n", "--pod-uid=0123456789abcdef", "--kubelet-plugins-dir=" + deep[:80]}, 2, "/gpu.nvidia.com/dra-0123456789abcdef.sock has "},
		"a hook path with a newline":                  {[]string{"--node-name=n", "--nvidia-cdi-hook-path=/a\nb"}, 2, "must be an absolute path without control characters"},
		"outside of a cluster":                        {[]string{"--node-name=n"}, 1, "does not run in a pod: run it in a pod with a service account, or set --kubeconfig"},
		"a kubeconfig that is not":                    {[]string{"--node-name=n", "--kubeconfig=/no/such"}, 1, "read kubeconfig /no/such"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := run(t, append([]string{"--listen="}, tc.args...)...)
			if code != tc.code || !strings.Contains(errOut, tc.want) {
				t.Errorf("exit code %d, %q, want %d and %q", code, errOut, tc.code, tc.want)
			}
		})
	}
}
