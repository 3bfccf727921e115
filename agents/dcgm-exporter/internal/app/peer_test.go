package app_test

import (
	"slices"
	"strings"
	"testing"

	"outrigger.dev/agents/dcgm-exporter/internal/app"
)

// peerFlags are the flags of NVIDIA's DCGM Exporter up to 4.8.4, with their aliases.
const peerFlags = `collectors f address a collect-interval c kubernetes k use-old-namespace o cpu-devices p configmap-data m
	remote-hostengine-info r kubernetes-enable-pod-labels kubernetes-enable-pod-uid kubernetes-gpu-id-type
	kubernetes-pod-label-allowlist-regex devices d no-hostname n switch-devices s fake-gpus web-config-file
	xid-count-window-size x replace-blanks-in-model-name rbmn debug clock-events-count-window-size enable-dcgm-log
	dcgm-log-level log-format pod-resources-kubelet-socket hpc-job-mapping-dir nvidia-resource-names
	kubernetes-virtual-gpus dump-enabled dump-directory dump-retention dump-compression kubernetes-enable-dra
	disable-startup-validate enable-gpu-bind-unbind-watch gpu-bind-unbind-poll-interval enable-pprof web-systemd-socket
	config-file container-labels container-runtime-socket enable-exporter-metrics`

// A command line for NVIDIA's exporter starts this one. Flags of package agent are added to those of
// the App.
func TestFlagsOfThePeer(t *testing.T) {
	has := []string{"log-format"}
	a := app.App()
	has = append(has, a.ListenAliases...)
	for _, f := range a.Flags {
		has = append(has, f.Names()...)
	}
	for _, name := range strings.Fields(peerFlags) {
		if !slices.Contains(has, name) {
			t.Errorf("--%s of NVIDIA's exporter ends this one", name)
		}
	}
}
