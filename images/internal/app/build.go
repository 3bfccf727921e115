package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"outrigger.dev/images/internal/base"
	"outrigger.dev/images/internal/dockerfile"
	"outrigger.dev/images/internal/layer"
	"outrigger.dev/images/internal/oci"
)

// Config is the configuration from the command line.
type Config struct {
	// Dir is the folder of the Dockerfile.
	Dir string
	// Bin is the folder of the built programs. The Dockerfile's build stage puts them into /out.
	Bin string
	// Libc is the libc6 package. Its Arch is the architecture of the images.
	Libc base.Source
	// Out is the folder for COMPONENT.tar.
	Out string
	// Cache is the folder for the trees of the base.
	Cache string
	// Repository is the part of an image's name before the component.
	Repository string
	Version    string
	// Revision is the commit of the source.
	Revision string
	OS       base.OS
	// Time is the time of all files and images.
	Time time.Time
}

// Result describes the archive of one component.
type Result struct {
	Archive string
	Ref     string
	Digest  string
	Bytes   int
	// Changed is false if the archive on disk was up to date.
	Changed bool
}

// String returns the output line of the program.
func (r Result) String() string {
	state := "unchanged"
	if r.Changed {
		state = "written"
	}
	return fmt.Sprintf("%s  %s  %s  %.1f MB  %s", r.Archive, r.Ref, r.Digest, float64(r.Bytes)/1e6, state)
}

// Build writes the archive of one component.
func (c Config) Build(ctx context.Context, component string) (Result, error) {
	result, err := c.build(ctx, component)
	if err != nil {
		return Result{}, fmt.Errorf("build image of %s: %w", component, err)
	}
	return result, nil
}

func (c Config) build(ctx context.Context, component string) (Result, error) {
	ref, err := c.tag(component, c.Version+"-"+c.OS.String())
	if err != nil {
		return Result{}, err
	}
	built, err := c.image(ctx, component)
	if err != nil {
		return Result{}, err
	}
	return c.archive(component, built, ref)
}

// archive writes the image to file.tar if it has changed.
func (c Config) archive(file string, built image, refs ...name.Tag) (Result, error) {
	digest, err := built.Digest()
	if err != nil {
		return Result{}, err
	}
	var archive bytes.Buffer
	if err := oci.Write(&archive, built, refs...); err != nil {
		return Result{}, err
	}
	result := Result{Archive: filepath.Join(c.Out, file+".tar"), Ref: refs[0].String(), Digest: digest.String(), Bytes: archive.Len()}
	result.Changed, err = replace(result.Archive, archive.Bytes())
	return result, err
}

// tag returns the name of a component's image.
func (c Config) tag(component, tag string) (name.Tag, error) {
	return name.NewTag(fmt.Sprintf("%s/%s:%s", c.Repository, component, tag), name.StrictValidation)
}

// image is the image of a component.
type image struct {
	v1.Image
	// root is the tree of the image's base. programs are the files of the programs in the image.
	root     string
	programs []string
}

// image returns the image of component.
func (c Config) image(ctx context.Context, component string) (image, error) {
	recipe, err := c.recipe(component)
	if err != nil {
		return image{}, err
	}
	var built image
	layers, err := c.layers(ctx, recipe, &built)
	if err != nil {
		return image{}, err
	}
	built.Image, err = c.assemble(recipe, layers)
	return built, err
}

// recipe returns the recipe of component.
func (c Config) recipe(component string) (dockerfile.Recipe, error) {
	file, err := c.dockerfile()
	if err != nil {
		return dockerfile.Recipe{}, err
	}
	return file.Recipe(component, map[string]string{
		"VERSION": c.Version, "REVISION": c.Revision, "OS_BASE": c.OS.String(), "BASE_NAME": c.OS.Reference(),
	})
}

// layers returns one layer per COPY. A COPY can use a folder of the repository, which is above Dir,
// and two stages: base has the tree of rootfs.sh at /rootfs/, and build has the programs in /out/.
// layers stores the tree and the programs in built.
func (c Config) layers(ctx context.Context, recipe dockerfile.Recipe, built *image) ([]mutate.Addendum, error) {
	var layers []mutate.Addendum
	for _, step := range recipe.Copies {
		source := layer.Source{To: step.To, Time: c.Time}
		program, fromBuild := strings.CutPrefix(step.From, "/out/")
		switch {
		case step.Stage == "":
			source.Path = filepath.Join(c.Dir, "..", step.From)
		case step.Stage == "base" && step.From == "/rootfs/" && step.To == "/":
			dir, err := base.Make(ctx, filepath.Join(c.Dir, "base", "rootfs.sh"), c.Cache, c.Libc)
			if err != nil {
				return nil, err
			}
			built.root, source.Path = dir, dir
		case step.Stage == "build" && fromBuild && filepath.IsLocal(program) && !strings.HasSuffix(step.To, "/"):
			source.Path = filepath.Join(c.Bin, program)
			if err := check(source.Path, c.Libc.Arch, built.root); err != nil {
				return nil, err
			}
			if !strings.Contains(filepath.Base(program), ".so") { // a library of ours in C, which has no modules
				built.programs = append(built.programs, source.Path)
			}
		default:
			return nil, fmt.Errorf("copy %s from stage %s to %s: supported are /rootfs/ of stage base to / and /out/PROGRAM of stage build to a file",
				step.From, step.Stage, step.To)
		}
		packed, err := layer.New(source)
		if err != nil {
			return nil, err
		}
		layers = append(layers, mutate.Addendum{
			Layer:     packed,
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: c.Time}, CreatedBy: step.String()},
		})
	}
	return layers, nil
}

// check returns an error if the program at path cannot run on the base at root.
func check(path, arch, root string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: run make build first", err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := base.Check(f, arch, root); err != nil {
		return fmt.Errorf("add %s to the image: %w", path, err)
	}
	return nil
}

// assemble returns an image with the layers and the configuration of recipe.
func (c Config) assemble(recipe dockerfile.Recipe, layers []mutate.Addendum) (v1.Image, error) {
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", c.Libc.Arch
	config.Created = v1.Time{Time: c.Time}
	config.Config = v1.Config{
		// docker build writes this PATH for an image FROM scratch.
		Env:        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, recipe.Env...),
		Labels:     recipe.Labels,
		User:       recipe.User,
		Entrypoint: recipe.Entrypoint,
		Cmd:        recipe.Cmd,
		WorkingDir: "/",
	}
	return mutate.ConfigFile(image, config)
}

// replace writes content to path atomically, unless path has this content.
func replace(path string, content []byte) (changed bool, err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return false, err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return false, err
	}
	return true, os.Rename(temp.Name(), path)
}
