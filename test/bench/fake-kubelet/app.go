package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/pkg/cmdline"
)

const description = `It creates kubelet.sock in a new folder, waits for a plugin, and prints

  registered RESOURCE
  device ID HEALTH numa=NODES           for each device, ordered by id
  allocated ID cdi=NAME                 for each CDI device in the answer
  allocated ID env=NAME=VALUE           for each environment variable
  allocated ID node=PATH                for each device node
  registered-again RESOURCE devices=N   after it stopped and started again

Then it waits for SIGTERM, so that you can observe the plugin further.`

// config is the configuration from the command line.
type config struct {
	dir      string
	resource string
	devices  int
	timeout  time.Duration
}

func app() *cli.App {
	var c config
	return &cli.App{
		Name:        "fake-kubelet",
		Usage:       "call a device plugin as the kubelet does, and print its answers",
		Description: description,
		Flags: []cli.Flag{
			&cli.PathFlag{
				Name: "dir", EnvVars: []string{"FAKE_KUBELET_DIR"}, Destination: &c.dir,
				Usage: "`FOLDER` for kubelet.sock and the plugin's sockets; it must not exist yet",
			},
			&cli.StringFlag{
				Name: "resource", EnvVars: []string{"FAKE_KUBELET_RESOURCE"}, Value: "nvidia.com/gpu", Destination: &c.resource,
				Usage: "`RESOURCE` that the plugin advertises",
			},
			&cli.IntFlag{
				Name: "devices", EnvVars: []string{"FAKE_KUBELET_DEVICES"}, Value: 1, Destination: &c.devices,
				Usage: "`NUMBER` of devices to wait for",
			},
			&cli.DurationFlag{
				Name: "timeout", EnvVars: []string{"FAKE_KUBELET_TIMEOUT"}, Value: 30 * time.Second, Destination: &c.timeout,
				Usage: "time limit for each wait for the plugin",
			},
		},
		Action: func(ctx *cli.Context) error { return c.run(ctx.Context, ctx.App.Writer) },
	}
}

func (c config) run(ctx context.Context, out io.Writer) error {
	if c.dir == "" {
		return cmdline.Usagef("flag --dir: needs a value: a new folder")
	}
	// A kubelet empties its folder, so reject an existing one.
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the sockets: %w: set --dir to a new folder", err)
	}
	kubelet, err := kubelettest.Start(c.dir)
	if err != nil {
		return err
	}
	defer kubelet.Stop()
	devices, err := c.listen(ctx, kubelet, 1)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "registered", c.resource)
	slices.SortFunc(devices, func(a, b *pluginapi.Device) int { return strings.Compare(a.GetID(), b.GetID()) })
	for _, d := range devices {
		printDevice(out, d)
	}
	for _, d := range devices {
		if err := c.allocate(ctx, kubelet, d.GetID(), out); err != nil {
			return err
		}
	}
	if err := kubelet.Restart(); err != nil {
		return err
	}
	devices, err = c.listen(ctx, kubelet, 2)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "registered-again %s devices=%d\n", c.resource, len(devices))
	<-ctx.Done()
	return nil
}

// listen waits for the n-th registration and for the configured number of devices.
func (c config) listen(ctx context.Context, kubelet *kubelettest.Kubelet, n int) ([]*pluginapi.Device, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errors.New("the plugin took too long"))
	defer cancel()
	if _, err := kubelet.WaitRegistrations(ctx, n); err != nil {
		return nil, err
	}
	update, err := kubelet.WaitDevices(ctx, c.resource, func(d []*pluginapi.Device) bool { return len(d) >= c.devices })
	return update.Devices, err
}

// allocate requests a single device and prints the answer.
func (c config) allocate(ctx context.Context, kubelet *kubelettest.Kubelet, id string, out io.Writer) error {
	answer, err := kubelet.Allocate(ctx, c.resource, id)
	if err != nil {
		return fmt.Errorf("allocate %s: %w", id, err)
	}
	for _, device := range answer.GetCdiDevices() {
		fmt.Fprintf(out, "allocated %s cdi=%s\n", id, device.GetName())
	}
	for _, name := range slices.Sorted(maps.Keys(answer.GetEnvs())) {
		fmt.Fprintf(out, "allocated %s env=%s=%s\n", id, name, answer.GetEnvs()[name])
	}
	for _, node := range answer.GetDevices() {
		fmt.Fprintf(out, "allocated %s node=%s\n", id, node.GetHostPath())
	}
	return nil
}

func printDevice(out io.Writer, d *pluginapi.Device) {
	numa := "none"
	for i, node := range d.GetTopology().GetNodes() {
		if i == 0 {
			numa = ""
		} else {
			numa += ","
		}
		numa += fmt.Sprint(node.GetID())
	}
	fmt.Fprintf(out, "device %s %s numa=%s\n", d.GetID(), d.GetHealth(), numa)
}
