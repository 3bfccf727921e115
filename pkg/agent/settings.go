package agent

import (
	"log/slog"
	"net"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
)

// settings holds the values of the flags that every agent has.
type settings struct {
	listen, probeAddress string
	certFile, keyFile    string
	logFormat, logLevel  string
}

// settingsKey is the key of the settings in the context of commands.
type settingsKey struct{}

func (s *settings) listenFlags(app App) []cli.Flag {
	isAddress := func(v string) bool {
		_, _, err := net.SplitHostPort(v)
		return v == "" || err == nil
	}
	const allowed = "host:port, :port, or empty for off"
	return cmdline.Under(category.Server,
		cmdline.Check(&cli.StringFlag{
			Name: "listen", Aliases: app.ListenAliases, EnvVars: append([]string{"LISTEN_ADDRESS"}, app.ListenVariables...),
			Value: app.Listen, Destination: &s.listen,
			Usage: "`ADDRESS` to serve /healthz, /readyz and /metrics on; if empty, the agent serves none of them",
		}, allowed, isAddress),
		cmdline.Check(&cli.StringFlag{
			Name: "probe-address", EnvVars: []string{"PROBE_ADDRESS"}, Destination: &s.probeAddress,
			Usage: "second `ADDRESS` to serve /healthz and /readyz on, always over HTTP; clients of --listen cannot delay its probes",
		}, allowed, isAddress),
	)
}

func (s *settings) tlsFlags() []cli.Flag {
	return cmdline.Under(category.Server,
		&cli.PathFlag{
			Name: "tls-cert-file", EnvVars: []string{"TLS_CERT_FILE"}, Destination: &s.certFile,
			Usage: "`FILE` with the certificate chain in PEM, to serve HTTPS on --listen; the agent loads certificate and key again when they change",
		},
		&cli.PathFlag{
			Name: "tls-private-key-file", EnvVars: []string{"TLS_PRIVATE_KEY_FILE"}, Destination: &s.keyFile,
			Usage: "`FILE` with the private key of --tls-cert-file in PEM",
		},
	)
}

func (s *settings) logFlags() []cli.Flag {
	return cmdline.Under(category.Logging,
		cmdline.Enum(&cli.StringFlag{
			Name: "log-format", EnvVars: []string{"LOG_FORMAT"}, Value: "text", Destination: &s.logFormat,
			Usage: "log `FORMAT`: text or json",
		}, "text", "json"),
		cmdline.Enum(&cli.StringFlag{
			Name: "log-level", EnvVars: []string{"LOG_LEVEL"}, Value: "info", Destination: &s.logLevel,
			Usage: "lowest `LEVEL` to log: debug, info, warn or error",
		}, "debug", "info", "warn", "error"),
	)
}

// endpoint describes where the agent with this name serves HTTP.
func (s *settings) endpoint(name string, log *slog.Logger) (endpoint, error) {
	cert, err := newCertificate(s.certFile, s.keyFile, log)
	return endpoint{agent: name, addr: s.listen, probes: s.probeAddress, cert: cert, loops: newLoopMetrics(name), log: log}, err
}
