// Package app is the command line of images.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/images/internal/base"
	"outrigger.dev/images/internal/chart"
	"outrigger.dev/images/internal/dockerfile"
	"outrigger.dev/images/internal/push"
	"outrigger.dev/pkg/cmdline"
)

const description = `Each stage of the Dockerfile that starts FROM image is a component. The program
interprets these stages, so it needs no container engine and no registry.
"docker build" makes the same images. You can load an archive with
"ctr images import" and with "docker load". Equal input gives equal bytes, and an
archive that is up to date is not written again.`

const pushDescription = `An image keeps its name and tag: outrigger.dev/device-plugin:26.11.0-debian12 becomes
REGISTRY/device-plugin:26.11.0-debian12. A chart becomes REGISTRY/charts/NAME:VERSION.
Of a release, each image has an index of all architectures. The credentials are those
of "docker login" and "podman login".`

// Main runs the program and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	var build settings
	return cmdline.Exec(context.Background(), &cli.App{
		Name:  "images",
		Usage: "write the container images and charts as OCI archives, and copy them to a registry",
		Description: cmdline.Describe("",
			cmdline.Example{Purpose: "Write the images of all components", Line: "images build"},
			cmdline.Example{Purpose: "Write one image, and import it into containerd", Line: "images build --version 1.0 device-plugin && ctr -n k8s.io images import out/images/device-plugin.tar"},
			cmdline.Example{Purpose: "Write the images of a release for two architectures", Line: "images release --version 1.0 --arch amd64,arm64"},
		),
		Writer:    stdout,
		ErrWriter: stderr,
		Commands: []*cli.Command{{
			Name:        "build",
			Usage:       "write the archives of the named components, or of all",
			ArgsUsage:   "[COMPONENT…]",
			Description: description,
			Flags:       build.flags("bin", "out/images"),
			Action: func(ctx *cli.Context) error {
				if err := build.complete(); err != nil {
					return err
				}
				return run(ctx.Context, build.Config, ctx.Args().Slice(), stdout)
			},
		}, releaseCommand(), chartsCommand(), pushCommand()},
	}, args)
}

// chartsCommand returns the command that writes packages of charts as an OCI layout.
func chartsCommand() *cli.Command {
	var out string
	return &cli.Command{
		Name:        "charts",
		Usage:       "write packages of Helm charts as an OCI layout",
		ArgsUsage:   "PACKAGE…",
		Description: "Tools such as skopeo, oras and crane copy a chart from the layout to a registry, from which Helm installs it.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", EnvVars: []string{"IMAGES_CHARTS_OUT"}, Value: "out/charts/oci", Destination: &out, Usage: "`FOLDER` of the layout, which is replaced"},
		},
		Action: func(ctx *cli.Context) error {
			if !ctx.Args().Present() {
				return errors.New("charts: it needs the packages that helm package wrote; see \"images charts --help\"")
			}
			names, err := chart.Write(out, ctx.Args().Slice())
			for _, name := range names {
				fmt.Fprintf(ctx.App.Writer, "%s:%s\n", out, name)
			}
			return err
		},
	}
}

// pushCommand returns the command that copies images and charts to a registry.
func pushCommand() *cli.Command {
	var from []string
	var insecure bool
	var record string
	return &cli.Command{
		Name:        "push",
		Usage:       "copy images and charts to a registry",
		ArgsUsage:   "REGISTRY",
		Description: pushDescription,
		Flags: []cli.Flag{
			cmdline.List(&cli.StringSliceFlag{
				Name: "from", EnvVars: []string{"IMAGES_FROM"}, Value: cli.NewStringSlice("out/images"),
				Usage: "folders that build, release or charts wrote",
			}, &from),
			&cli.BoolFlag{Name: "insecure", EnvVars: []string{"IMAGES_INSECURE"}, Destination: &insecure, Usage: "also use HTTP; localhost and private addresses need no flag"},
			&cli.StringFlag{Name: "record", EnvVars: []string{"IMAGES_RECORD"}, Destination: &record, Usage: "`FILE` for the digests, in the format of sha256sum"},
		},
		Action: func(ctx *cli.Context) error {
			if ctx.NArg() > 1 {
				return fmt.Errorf("push: unknown argument %q; give one registry, and flags before it", ctx.Args().Get(1))
			}
			to, err := push.ParseRegistry(ctx.Args().First(), insecure)
			if err != nil {
				return err
			}
			all, err := to.Push(ctx.Context, ctx.App.Writer, from...)
			if err == nil && record != "" {
				_, err = replace(record, push.Checksums(all))
			}
			return err
		},
	}
}

// settings holds the values of the flags of a command that makes images.
type settings struct {
	Config

	osBase, epoch string
}

// flags returns the flags of a command that makes images. bin and out are the default folders.
func (s *settings) flags(bin, out string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "dir", EnvVars: []string{"IMAGES_DIR"}, Value: "images", Destination: &s.Dir, Usage: "`FOLDER` of the Dockerfile"},
		&cli.StringFlag{Name: "bin", EnvVars: []string{"IMAGES_BIN"}, Value: bin, Destination: &s.Bin, Usage: "`FOLDER` of the built programs"},
		&cli.StringFlag{Name: "out", EnvVars: []string{"IMAGES_OUT"}, Value: out, Destination: &s.Out, Usage: "`FOLDER` to write the images to"},
		&cli.StringFlag{Name: "repository", EnvVars: []string{"IMAGES_REPOSITORY"}, Value: "outrigger.dev", Destination: &s.Repository, Usage: "first part of the images' names"},
		&cli.StringFlag{Name: "version", EnvVars: []string{"VERSION"}, Value: "dev", Destination: &s.Version, Usage: "version in the images' tags"},
		&cli.StringFlag{Name: "revision", EnvVars: []string{"REVISION"}, Value: "unknown", Destination: &s.Revision, Usage: "`COMMIT` of the source in the images' labels"},
		&cli.StringFlag{
			Name: "os-base", EnvVars: []string{"OS_BASE"}, Destination: &s.osBase,
			Usage: "distribution in the images' tags, which must be the distribution of this machine (default: from /etc/os-release)",
		},
		&cli.StringFlag{
			Name: "source-date-epoch", EnvVars: []string{"SOURCE_DATE_EPOCH"}, Value: "0", Destination: &s.epoch,
			Usage: "time written on files and images, in `SECONDS` since 1970",
		},
	}
}

// complete derives the fields without flags. It reports all errors in the flags.
func (s *settings) complete() error {
	var errs []error
	seconds, err := strconv.ParseInt(s.epoch, 10, 64)
	if err != nil || seconds < 0 {
		errs = append(errs, fmt.Errorf("--source-date-epoch is %q: give seconds since 1970", s.epoch))
	}
	s.Libc.Arch, s.Cache = runtime.GOARCH, filepath.Join(s.Out, ".base")
	s.Time = time.Unix(seconds, 0).UTC()
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return fmt.Errorf("name the base: %w", err)
	}
	s.OS, err = base.ReadOS(release)
	if err == nil && s.osBase != "" && s.osBase != s.OS.String() {
		err = fmt.Errorf("--os-base is %s, but the programs are linked with the glibc of %s: omit the flag, or build on %s",
			s.osBase, s.OS, s.osBase)
	}
	return errors.Join(append(errs, err)...)
}

// run builds the named components, or all components.
func run(ctx context.Context, c Config, components []string, stdout io.Writer) error {
	all, err := c.components()
	if err != nil {
		return err
	}
	if len(components) == 0 {
		components = all
	}
	for _, component := range components {
		if !slices.Contains(all, component) {
			return fmt.Errorf("build image of %s: unknown component; the components are %s", component, strings.Join(all, ", "))
		}
		result, err := c.Build(ctx, component)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, result)
	}
	return nil
}

// dockerfile reads the Dockerfile of all components.
func (c Config) dockerfile() (dockerfile.File, error) {
	return dockerfile.Read(filepath.Join(c.Dir, "Dockerfile"))
}

// components returns the images of the Dockerfile.
func (c Config) components() ([]string, error) {
	file, err := c.dockerfile()
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: run images in the root of the repository, or set --dir", err)
	}
	return file.Images(), err
}
