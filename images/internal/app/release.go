package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/urfave/cli/v2"

	"outrigger.dev/images/internal/base"
	"outrigger.dev/images/internal/oci"
	"outrigger.dev/images/internal/sbom"
	"outrigger.dev/pkg/cmdline"
)

const releaseDescription = `The command writes one archive for each component and architecture, and one OCI
layout for each component, whose index names all architectures. Each image has the
tags VERSION-OS and VERSION. For each image and each program, the command writes a
list of the contents (SBOM, CycloneDX). The folder of --bin has one folder for each
architecture.`

// releaseCommand returns the command that writes the images of a release.
func releaseCommand() *cli.Command {
	var s settings
	var archs []string
	return &cli.Command{
		Name:        "release",
		Usage:       "write the images of a release for several architectures, with SBOMs",
		Description: releaseDescription,
		Flags: append(s.flags("out/build", "out/release/stable"),
			cmdline.List(&cli.StringSliceFlag{Name: "arch", EnvVars: []string{"IMAGES_ARCH"}, Value: cli.NewStringSlice("amd64", "arm64"), Usage: "architectures of the images"}, &archs),
			&cli.StringFlag{Name: "libc6", EnvVars: []string{"IMAGES_LIBC6"}, Value: "out/libc6", Destination: &s.Libc.Packages, Usage: "`FOLDER` that images/base/libc6.sh wrote"},
		),
		Action: func(ctx *cli.Context) error {
			if err := s.complete(); err != nil {
				return err
			}
			return release{Config: s.Config, archs: archs, stdout: ctx.App.Writer}.write(ctx.Context)
		},
	}
}

// release writes the images of all components. The fields Bin and Out of its Config are the folders
// of the whole release.
type release struct {
	Config
	archs  []string
	stdout io.Writer
}

func (r release) write(ctx context.Context) error {
	components, err := r.components()
	if err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "outrigger-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	r.Cache = cache
	for _, component := range components {
		if err := r.component(ctx, component); err != nil {
			return fmt.Errorf("release image of %s: %w", component, err)
		}
	}
	for _, arch := range r.archs {
		if err := r.programs(arch); err != nil {
			return err
		}
	}
	return nil
}

// configFor returns the configuration of the images for arch.
func (r release) configFor(arch string) Config {
	c := r.Config
	c.Libc.Arch, c.Bin, c.Out = arch, filepath.Join(r.Bin, arch), filepath.Join(r.Out, "images")
	return c
}

// component writes the archives, the layout and the SBOMs of a component.
func (r release) component(ctx context.Context, component string) error {
	tag := r.Version + "-" + r.OS.String()
	long, err := r.tag(component, tag)
	if err != nil {
		return err
	}
	short, err := r.tag(component, r.Version)
	if err != nil {
		return err
	}
	var images []v1.Image
	for _, arch := range r.archs {
		c, file := r.configFor(arch), component+"-"+tag+"-"+arch
		built, err := c.image(ctx, component)
		if err != nil {
			return fmt.Errorf("for %s: %w", arch, err)
		}
		result, err := c.archive(file, built, long, short)
		if err != nil {
			return fmt.Errorf("for %s: %w", arch, err)
		}
		fmt.Fprintln(r.stdout, result)
		if err := r.contents(built, component, tag, arch); err != nil {
			return fmt.Errorf("for %s: %w", arch, err)
		}
		images = append(images, built)
	}
	return oci.WriteLayout(filepath.Join(r.Out, "images", component), images, tag, r.Version)
}

// contents writes the SBOM of an image.
func (r release) contents(built image, component, tag, arch string) error {
	digest, err := built.Digest()
	if err != nil {
		return err
	}
	about := sbom.Image{
		Repository: r.Repository + "/" + component, Tag: tag, Arch: arch, Digest: digest.Hex,
		Distribution: r.OS.ID, Release: r.OS.Version, Programs: built.programs,
	}
	if built.root != "" {
		libc, err := base.Package(built.root)
		if err != nil {
			return err
		}
		about.Packages = []sbom.Package{{
			Name: libc["Package"], Source: libc["Source"], Version: libc["Version"], Arch: libc["Architecture"], Maintainer: libc["Maintainer"],
		}}
	}
	text, err := r.documents().Image(about)
	if err != nil {
		return err
	}
	_, err = replace(filepath.Join(r.Out, "sbom/images", component+"-"+tag+"-"+arch+".cdx.json"), text)
	return err
}

// programs writes the SBOM of each program that was built for arch.
func (r release) programs(arch string) error {
	files, err := os.ReadDir(filepath.Join(r.Bin, arch))
	if err != nil {
		return err
	}
	for _, file := range files {
		if file.IsDir() { // the simulator's libraries
			continue
		}
		text, err := r.documents().Program(filepath.Join(r.Bin, arch, file.Name()))
		if err != nil {
			return err
		}
		if _, err := replace(filepath.Join(r.Out, "sbom/programs", file.Name()+"-"+arch+".cdx.json"), text); err != nil {
			return err
		}
	}
	return nil
}

func (r release) documents() sbom.Release { return sbom.Release{Version: r.Version, Time: r.Time} }
