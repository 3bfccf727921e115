package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/hostfs"
)

// installMode is the mode of folders and programs for all users.
const installMode = 0o755

// install copies this program into a folder. An init container with the agent's image does this
// for a main container with the driver's image.
func install(c *cli.Context) error {
	if c.Args().Len() != 1 {
		return cmdline.Usagef("install needs one DIR: the folder to which this program is copied")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return installTo(c.Args().First(), self)
}

// installTo copies a program into a folder, under the name driver-loader. It replaces the file,
// so that a running program is not changed.
func installTo(dir, program string) error {
	err := os.MkdirAll(dir, installMode)
	if err == nil {
		err = copyProgram(program, filepath.Join(dir, loader.Name))
	}
	if err != nil {
		return fmt.Errorf("install %s in %s: %w", loader.Name, dir, err)
	}
	return nil
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
