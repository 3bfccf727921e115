package shim

import (
	"strings"
	"testing"
)

func TestParseCall(t *testing.T) {
	for line, want := range map[string]call{
		"":                                    {},
		"--version":                           {version: true},
		"-v":                                  {version: true},
		"create -v":                           {command: "create"},
		"create --bundle /b id":               {command: "create", bundle: "/b"},
		"create -b /b id":                     {command: "create", bundle: "/b"},
		"create --bundle=/b id":               {command: "create", bundle: "/b"},
		"create -bundle /a -b=/b id":          {command: "create", bundle: "/b"},
		"create id":                           {command: "create"},
		"create --pid-file create -b /b id":   {command: "create", bundle: "/b"},
		"create --console-socket --bundle id": {command: "create"},
		"create -- --bundle":                  {command: "create"},
		"--root /run/runc --log /l --log-format json create -b /b id": {command: "create", root: "/run/runc", bundle: "/b", log: "/l", json: true},
		"--log=/l --log-format=text --debug run --bundle /b id":       {command: "run", bundle: "/b", log: "/l", debug: true},
		"--root create delete create":                                 {command: "delete", root: "create"},
		"--systemd-cgroup --rootless auto start id":                   {command: "start"},
		"--future value create --bundle /b id":                        {command: "create", bundle: "/b"},
		"--future create --bundle /b id":                              {command: "create", bundle: "/b"},
		"--future=x kill create":                                      {command: "kill"},
		"state create":                                                {command: "state"},
		"--bundle /b create id":                                       {command: "create", bundle: "/b"},
	} {
		if got := parseCall(strings.Fields(line)); got != want {
			t.Errorf("%q gives %+v, want %+v", line, got, want)
		}
	}
}
