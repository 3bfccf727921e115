package app_test

import (
	"testing"

	"outrigger.dev/agents/dcgm-exporter/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	agenttest.Program(t, app.App).Agent(t, map[string]cmdlinetest.Case{
		"an interval that is too short":     {Line: "--listen= --collect-interval=50", Code: 2, Want: []string{"--collect-interval", `"50"`, "200 to 3600000"}},
		"an interval by its letter":         {Line: "-a= -c 50", Code: 2, Want: []string{"--collect-interval", `"50"`}},
		"an interval by variable":           {Line: "--listen=", Env: map[string]string{"DCGM_EXPORTER_INTERVAL": "50"}, Code: 2, Want: []string{"--collect-interval", "DCGM_EXPORTER_INTERVAL"}},
		"an interval that is no number":     {Line: "--listen= --collect-interval=x", Code: 2, Want: []string{"collect-interval", `"x"`}},
		"names that are none":               {Line: "--listen= --metric-names=new", Code: 2, Want: []string{"--metric-names", `"new"`, "both"}},
		"labels that are none":              {Line: "--listen= --hostname-label=host", Code: 2, Want: []string{"--hostname-label", `"host"`, "Hostname"}},
		"devices that are none":             {Line: "--listen= -d x", Code: 2, Want: []string{"--devices", `"x"`}},
		"devices that are none by variable": {Line: "--listen=", Env: map[string]string{"DCGM_EXPORTER_DEVICES_STR": "x"}, Code: 2, Want: []string{"--devices", "DCGM_EXPORTER_DEVICES_STR", `"x"`}},
		"an address by variable of DCGM":    {Env: map[string]string{"DCGM_EXPORTER_LISTEN": "9410"}, Code: 2, Want: []string{"--listen", "DCGM_EXPORTER_LISTEN", `"9410"`}},
	})
}
