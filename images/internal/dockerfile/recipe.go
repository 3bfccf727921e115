// Package dockerfile reads the stage of an image in a Dockerfile into a Recipe. Package app makes
// the image from the recipe. The package supports the instructions that need no container, and
// rejects all others.
package dockerfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Recipe describes an image.
type Recipe struct {
	// Copies become one layer each, in this order.
	Copies     []Copy
	Labels     map[string]string
	Env        []string
	User       string
	Entrypoint []string
	Cmd        []string
}

// Copy copies files from an earlier stage or from the repository into the image.
type Copy struct {
	// Stage is empty for a folder of the repository.
	Stage string
	// From and To are absolute paths, but From is relative to the root of the repository if Stage is
	// empty. A path that ends in "/" means the content of a folder.
	From string
	To   string
}

// String returns the COPY instruction.
func (c Copy) String() string {
	if c.Stage == "" {
		return fmt.Sprintf("COPY %s %s", c.From, c.To)
	}
	return fmt.Sprintf("COPY --from=%s %s %s", c.Stage, c.From, c.To)
}

// common is the stage that each image starts from. This stage starts from scratch.
const common = "image"

// File is a Dockerfile with the stages of several images.
type File struct {
	path   string
	stages []instructions.Stage
}

// Read reads the Dockerfile at path.
func Read(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	file, err := parser.Parse(f)
	if err != nil {
		return File{}, fmt.Errorf("parse %s: %w", path, err)
	}
	stages, _, err := instructions.Parse(file.AST, nil)
	if err != nil {
		return File{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return File{path, stages}, nil
}

// Images returns the names of all images, in the order of their stages.
func (f File) Images() []string {
	var names []string
	for _, stage := range f.stages {
		if stage.BaseName == common {
			names = append(names, stage.Name)
		}
	}
	return names
}

// Recipe returns the recipe of an image. args replaces the defaults of build arguments.
func (f File) Recipe(name string, args map[string]string) (Recipe, error) {
	d := &reader{path: f.path, given: args, lex: shell.NewLex(parser.DefaultEscapeToken), args: map[string]string{}}
	d.recipe.Labels = map[string]string{}
	err := errors.Join(d.stage(f.stages, common, "scratch"), d.stage(f.stages, name, common))
	return d.recipe, err
}

// reader collects the instructions of an image.
type reader struct {
	path   string
	recipe Recipe
	lex    *shell.Lex
	// given has the values that replace the defaults of arguments.
	given map[string]string
	args  map[string]string
}

// stage adds the instructions of a stage, which must start from base.
func (d *reader) stage(stages []instructions.Stage, name, base string) error {
	at := slices.IndexFunc(stages, func(s instructions.Stage) bool { return s.Name == name })
	if at < 0 {
		return fmt.Errorf("%s has no stage %s: add FROM %s AS %s", d.path, name, base, name)
	}
	stage := stages[at]
	if stage.BaseName != base {
		return d.fail(stage.Location, "FROM "+stage.BaseName, "start the stage "+name+" with FROM "+base+", and copy other files from a stage")
	}
	var errs []error
	for _, command := range stage.Commands {
		errs = append(errs, d.read(command))
	}
	return errors.Join(errs...)
}

// read adds one instruction to the recipe.
func (d *reader) read(command instructions.Command) error {
	if e, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := e.Expand(d.expand); err != nil {
			return d.fail(command.Location(), command.Name(), err.Error())
		}
	}
	switch c := command.(type) {
	case *instructions.ArgCommand:
		for _, arg := range c.Args {
			d.arg(arg)
		}
	case *instructions.LabelCommand:
		for _, label := range c.Labels {
			d.recipe.Labels[label.Key] = label.Value
		}
	case *instructions.EnvCommand:
		for _, env := range c.Env {
			d.recipe.Env = append(d.recipe.Env, env.Key+"="+env.Value)
			d.args[env.Key] = env.Value
		}
	case *instructions.UserCommand:
		d.recipe.User = c.User
	case *instructions.EntrypointCommand:
		return d.exec(c.Location(), "ENTRYPOINT", c.ShellDependantCmdLine, &d.recipe.Entrypoint)
	case *instructions.CmdCommand:
		return d.exec(c.Location(), "CMD", c.ShellDependantCmdLine, &d.recipe.Cmd)
	case *instructions.CopyCommand:
		return d.copy(c)
	default:
		return d.fail(command.Location(), strings.ToUpper(command.Name()),
			"this needs a container engine; move it to an earlier stage and copy its result")
	}
	return nil
}

func (d *reader) arg(arg instructions.KeyValuePairOptional) {
	if value, ok := d.given[arg.Key]; ok {
		d.args[arg.Key] = value
	} else if arg.Value != nil {
		d.args[arg.Key] = *arg.Value
	}
}

func (d *reader) exec(at []parser.Range, name string, line instructions.ShellDependantCmdLine, to *[]string) error {
	if line.PrependShell {
		return d.fail(at, name, `the image has no shell; write it as a list: ["/usr/bin/…"]`)
	}
	*to = line.CmdLine
	return nil
}

func (d *reader) copy(c *instructions.CopyCommand) error {
	if len(c.SourcePaths) != 1 || len(c.SourceContents) > 0 {
		return d.fail(c.Location(), "COPY", "write it as COPY --from=STAGE /SOURCE /DESTINATION")
	}
	if c.Chown != "" || c.Chmod != "" || len(c.ExcludePatterns) > 0 || c.Parents {
		return d.fail(c.Location(), "COPY", "no flag but --from and --link is understood; set owner and mode in the stage")
	}
	from, to := c.SourcePaths[0], c.DestPath
	switch {
	case c.From == "" && !(filepath.IsLocal(from) && strings.HasSuffix(from, "/") && strings.HasPrefix(to, "/") && strings.HasSuffix(to, "/")):
		return d.fail(c.Location(), "COPY", "write it as COPY --from=STAGE /SOURCE /DESTINATION, or for a folder of the repository as COPY FOLDER/ /DESTINATION/")
	case c.From != "" && !(strings.HasPrefix(from, "/") && strings.HasPrefix(to, "/")):
		return d.fail(c.Location(), "COPY", "both paths must be absolute")
	}
	d.recipe.Copies = append(d.recipe.Copies, Copy{Stage: c.From, From: from, To: to})
	return nil
}

func (d *reader) expand(word string) (string, error) {
	value, unmatched, err := d.lex.ProcessWord(word, variables(d.args))
	for name := range unmatched {
		err = errors.Join(err, fmt.Errorf("variable %s is not set: declare it with ARG", name))
	}
	return value, err
}

// fail returns an error with the file, the line, the instruction and the fix.
func (d *reader) fail(at []parser.Range, instruction, fix string) error {
	line := 0
	if len(at) > 0 {
		line = at[0].Start.Line
	}
	return fmt.Errorf("%s:%d: %s: %s", d.path, line, instruction, fix)
}

// variables implements the word expander's interface with a map.
type variables map[string]string

// Get returns the value of a variable.
func (v variables) Get(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

// Keys returns the names of all variables.
func (v variables) Keys() []string {
	keys := make([]string, 0, len(v))
	for name := range v {
		keys = append(keys, name)
	}
	return keys
}
