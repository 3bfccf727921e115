package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/text"
)

const (
	// probeLimit is the time limit of a probe. The kubelet's time limit is lower.
	probeLimit = 10 * time.Second
	// maxProbe is the maximum number of bytes that are read from an answer.
	maxProbe = 64 << 10
)

// probeCommand returns the command "probe". It is for exec probes of an agent that listens only on
// localhost, which the kubelet cannot reach.
func (s *session) probeCommand() *cli.Command {
	return &cli.Command{
		Name:      "probe",
		Usage:     "ask the running agent for healthz or readyz, for exec probes; its address is --probe-address or, if that is empty, --listen",
		ArgsUsage: "healthz|readyz",
		Action:    s.probe,
	}
}

func (s *session) probe(c *cli.Context) error {
	page := c.Args().First()
	if pages := []string{"healthz", "readyz"}; c.NArg() != 1 || page != pages[0] && page != pages[1] {
		return cmdline.Usagef("arguments of probe: invalid value %q: must be %s", strings.Join(c.Args().Slice(), " "), text.OneOf(pages))
	}
	base, err := s.settings.probedURL()
	if err != nil {
		return err
	}
	code, body, err := fetch(c, base+"/"+page)
	if err != nil {
		return fmt.Errorf("probe the agent: %w", err)
	}
	if code != http.StatusOK {
		return fmt.Errorf("probe the agent: %s answers %d: %s", page, code, text.OneLine(errors.New(strings.TrimSpace(body))))
	}
	if _, err := io.WriteString(s.stdout, body); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// probedURL returns the URL of the running agent's probes.
func (s *settings) probedURL() (string, error) {
	switch {
	case s.probeAddress != "":
		return "http://" + s.probeAddress, nil
	case s.listen == "":
		return "", cmdline.Usagef("flag --listen: needs a value: the address that the running agent has")
	case s.certFile != "":
		return "https://" + s.listen, nil
	default:
		return "http://" + s.listen, nil
	}
}

// fetch returns the answer to a GET.
func fetch(c *cli.Context, url string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(c.Context, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Timeout: probeLimit, Transport: &http.Transport{
		// The kubelet does not verify the certificate for a probe either. This certificate is for
		// the names that other clients use.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the kubelet does not verify it either
		DisableKeepAlives: true,
	}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	return resp.StatusCode, string(data), err
}
