package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/hostfs"
)

// installMode is that of programs which others may start.
const installMode = 0o755

// install copies the programs of this agent into a folder. An init container of the agent's
// image does this for a main container of the driver's image.
func install(c *cli.Context) error {
	if c.Args().Len() != 1 {
		return cmdline.Usagef("install needs one DIR: the folder to which this program and %s are copied", eviction.Program)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return installTo(c.Args().First(), map[string]string{
		loader.Name: self, eviction.Program: filepath.Join(filepath.Dir(self), eviction.Program),
	})
}

// installTo copies programs into a folder, by their names there. Another program may run from
// the folder meanwhile: each file is replaced, not written.
func installTo(dir string, programs map[string]string) error {
	if err := os.MkdirAll(dir, installMode); err != nil {
		return fmt.Errorf("make the folder of the programs: %w", err)
	}
	var errs []error
	for name, from := range programs {
		if err := copyProgram(from, filepath.Join(dir, name)); err != nil {
			errs = append(errs, fmt.Errorf("install %s in %s: %w", name, dir, err))
		}
	}
	return errors.Join(errs...)
}

func copyProgram(from, to string) error {
	source, err := hostfs.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := hostfs.Replace(to, installMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	if err == nil {
		err = file.Commit()
	}
	return errors.Join(err, file.Close())
}
