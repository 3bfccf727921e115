package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
)

// ctrHostRoot is the folder where the chart mounts os-release of the host.
const ctrHostRoot = "/host"

// The outputs of labels.
const (
	publishNode        = "node"
	publishFile        = "nfd-file"
	publishNodeFeature = "nodefeature"
	publishStdout      = "stdout"
)

// settings holds the values of flags, environment variables and the config file.
type settings struct {
	gpus    gpuconfig.Settings
	cluster cluster.Settings
	// publish is one of the outputs above. fallback is the default if no flag selects one.
	publish, fallback string
	readyChain        []string
	startupTaint      string
	presence          bool
	hostRoot, podName string

	// load sets the fields below.
	live *gpuconfig.Live
	// adopted is the config in effect: the config of the node's device plugin, or live.
	adopted *gpuconfig.Adopted
	driver  *driver.Driver
	chain   []ready.Link
	taint   nodestate.Taint
	// api is nil outside of a cluster, and if it is not needed.
	api *cluster.API
}

// load reads the config file, and opens the driver and, if needed, the API server.
func (s *settings) load(ctx context.Context, log *slog.Logger) (err error) {
	if s.chain, err = ready.ParseChain(s.readyChain); err != nil {
		return cmdline.Usagef("flag --ready-chain: %s", err)
	}
	s.taint, _ = parseTaint(s.startupTaint) // the flag has checked the value
	if s.gpus.File.Dir != "" || len(s.chain) > 0 || s.cluster.Events {
		if s.api, err = s.cluster.Open(name, log); err != nil && !errors.Is(err, kube.ErrNotInCluster) {
			return err
		}
	}
	if s.live, err = s.gpus.Load(ctx, s.api, log); err != nil {
		return err
	}
	s.selectOutput()
	if s.api == nil && (s.publish == publishNode || s.publish == publishNodeFeature) {
		if s.api, err = s.openWriter(log); err != nil {
			return err
		}
	}
	if s.driver, err = driver.New(s.gpus.Host, s.live.Config.Driver); err != nil {
		return err
	}
	s.adopted = s.gpus.Adopt(s.live, s.driver.Contract, log)
	return nil
}

// selectOutput sets the output if --publish is not set: flags of GPU Feature Discovery may
// select one, and otherwise the output is the fallback.
func (s *settings) selectOutput() {
	gfd := s.live.Config.GFD
	if s.publish != "" {
		return
	}
	switch {
	case gfd.Output == config.OutputNodeFeature:
		s.publish = publishNodeFeature
	case gfd.Output == config.OutputFile && gfd.OutputFile == "":
		s.publish = publishStdout
	case gfd.Output == config.OutputFile:
		s.publish = publishFile
	default:
		s.publish = s.fallback
	}
}

// openWriter opens the API server for the outputs node and nodefeature. The other outputs must
// work without the API server and the name of the node, because the manifests of GPU Feature
// Discovery do not set NODE_NAME.
func (s *settings) openWriter(log *slog.Logger) (*cluster.API, error) {
	api, err := s.cluster.Open(name, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, cmdline.Usagef("flag --publish: %s needs the API server, and %s: set --kubeconfig, or use --publish=stdout or --publish=nfd-file", s.publish, err)
	}
	return api, err
}

// machineFile returns the file with the machine's product name.
func (s *settings) machineFile() string {
	path := s.live.Config.GFD.MachineTypeFile
	if path != config.Default().GFD.MachineTypeFile {
		return path
	}
	rest, _ := filepath.Rel("/sys", path)
	return filepath.Join(s.gpus.Host.SysRoot, rest)
}

// parseTaint parses key:effect, or "" for no taint.
func parseTaint(text string) (_ nodestate.Taint, ok bool) {
	key, effect, _ := strings.Cut(text, ":")
	known := slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect)
	return nodestate.Taint{Key: key, Effect: effect}, text == "" || known && key != "" && !strings.ContainsAny(key, "= ")
}
