package agent

import (
	"log/slog"

	"github.com/urfave/cli/v2"
)

func logFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "log-format", EnvVars: []string{"LOG_FORMAT"}, Value: "text",
			Usage: "log `FORMAT`: text or json",
		},
		&cli.StringFlag{
			Name: "log-level", EnvVars: []string{"LOG_LEVEL"}, Value: "info",
			Usage: "lowest `LEVEL` to log: debug, info, warn or error",
		},
	}
}

// Logger returns the logger that --log-format and --log-level describe. It writes to
// standard error.
func Logger(c *cli.Context) (*slog.Logger, error) {
	format, err := Choice(c, "log-format", "text", "json")
	if err != nil {
		return nil, err
	}
	word, err := Choice(c, "log-level", "debug", "info", "warn", "error")
	if err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(word)); err != nil {
		return nil, BadFlag("log-level", word, err.Error())
	}
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(c.App.ErrWriter, opts)), nil
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, opts)), nil
}
