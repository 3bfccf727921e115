package app_test

import (
	"testing"

	"outrigger.dev/agents/dcgm-exporter/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// peer has the flags of NVIDIA's DCGM Exporter up to 4.8.4: pkg/cmd of NVIDIA/dcgm-exporter.
const peer = `f:collectors= a:address= c:collect-interval= k:kubernetes o:use-old-namespace p:cpu-devices= m:configmap-data=
	r:remote-hostengine-info= :kubernetes-enable-pod-labels :kubernetes-enable-pod-uid :kubernetes-gpu-id-type=
	:kubernetes-pod-label-allowlist-regex= d:devices= n:no-hostname s:switch-devices= :fake-gpus :web-config-file=
	x:xid-count-window-size= rbmn:replace-blanks-in-model-name :debug :clock-events-count-window-size= :enable-dcgm-log
	:dcgm-log-level= :log-format= :pod-resources-kubelet-socket= :hpc-job-mapping-dir= :nvidia-resource-names=
	:kubernetes-virtual-gpus :dump-enabled :dump-directory= :dump-retention= :dump-compression :kubernetes-enable-dra
	:disable-startup-validate :enable-gpu-bind-unbind-watch :gpu-bind-unbind-poll-interval= :enable-pprof :web-systemd-socket
	:config-file= :container-labels= :container-runtime-socket= :enable-exporter-metrics`

// A command line for NVIDIA's exporter starts this one.
func TestFlagsOfThePeer(t *testing.T) {
	agenttest.Program(t, app.App).Accepts(t, cmdlinetest.Peer{Flags: map[string]string{"": peer}, First: "--help"})
}
