package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/kube"
)

// ctrHostRoot is where the chart mounts the files of the host's distribution.
const ctrHostRoot = "/host"

// The outputs of labels.
const (
	publishNode        = "node"
	publishFile        = "nfd-file"
	publishNodeFeature = "nodefeature"
	publishStdout      = "stdout"
)

// settings is what flags, environment and config file set.
type settings struct {
	live *gpuconfig.Live
	// adopted is the config in effect: that of live, or of the node's device plugin.
	adopted *gpuconfig.Adopted
	host    agent.Host
	driver  *driver.Driver
	// publish is one of the outputs above.
	publish string
	chain   []ready.Link
	taint   object.Taint
	// api is nil outside of a cluster, and if nothing needs it.
	api *cluster.API
}

// read reads flags, environment and config file.
func read(c *cli.Context, fallback string, log *slog.Logger) (settings, error) {
	host, hostErr := agent.HostOf(c)
	s := settings{host: host}
	var errs []error
	var err error
	if s.chain, err = ready.ParseChain(agent.Words(c, "ready-chain")); err != nil {
		errs = append(errs, agent.Usagef("flag --ready-chain: %s", err))
	}
	if s.taint, err = parseTaint(c.String("startup-taint")); err != nil {
		errs = append(errs, err)
	}
	if c.String("publish") != "" {
		if s.publish, err = agent.Choice(c, "publish", publishNode, publishFile, publishNodeFeature, publishStdout); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, hostErr)...); err != nil {
		return settings{}, err
	}
	if c.Path("config-dir") != "" || len(s.chain) > 0 || c.Bool("report-events") {
		if s.api, err = cluster.Open(c, name, log); err != nil && !errors.Is(err, kube.ErrNotInCluster) {
			return settings{}, err
		}
	}
	if s.live, err = gpuconfig.Load(c, s.api, log); err != nil {
		return settings{}, err
	}
	s.choose(fallback)
	if s.api == nil && (s.publish == publishNode || s.publish == publishNodeFeature) {
		if s.api, err = writer(c, s.publish, log); err != nil {
			return settings{}, err
		}
	}
	if s.driver, err = driver.New(host, s.live.Config.Driver); err != nil {
		return settings{}, err
	}
	s.adopted = gpuconfig.Adopt(c, s.live, s.driver.Contract, log)
	return s, nil
}

// choose sets the output if --publish is not set: flags of GPU Feature Discovery may
// select it, or else it is the fallback.
func (s *settings) choose(fallback string) {
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
		s.publish = fallback
	}
}

// writer opens the API server for labels that go there. Labels for a file or for
// standard output need neither an API server nor the name of the node: the manifests
// of GPU Feature Discovery set no NODE_NAME.
func writer(c *cli.Context, publish string, log *slog.Logger) (*cluster.API, error) {
	api, err := cluster.Open(c, name, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, agent.Usagef("flag --publish: %s needs the API server, and %s: use --publish=stdout or --publish=nfd-file", publish, err)
	}
	return api, err
}

// machineFile returns the file with the machine's product name.
func (s settings) machineFile() string {
	path := s.live.Config.GFD.MachineTypeFile
	if path != config.Default().GFD.MachineTypeFile {
		return path
	}
	rest, _ := filepath.Rel("/sys", path)
	return filepath.Join(s.host.SysRoot, rest)
}

// parseTaint reads key:effect, empty for no taint.
func parseTaint(text string) (object.Taint, error) {
	if text == "" {
		return object.Taint{}, nil
	}
	key, effect, _ := strings.Cut(text, ":")
	switch effect {
	case "NoSchedule", "PreferNoSchedule", "NoExecute":
	default:
		key = ""
	}
	if key == "" || strings.ContainsAny(key, "= ") {
		return object.Taint{}, agent.BadFlag("startup-taint", text, "key:effect, with the effect NoSchedule, PreferNoSchedule or NoExecute")
	}
	return object.Taint{Key: key, Effect: effect}, nil
}

// hostRoot returns the folder that contains etc/os-release.
func hostRoot(c *cli.Context) string {
	root := c.Path("host-root")
	if c.IsSet("host-root") {
		return root
	}
	if fi, err := os.Stat(root); err != nil || !fi.IsDir() {
		return "/"
	}
	return root
}
