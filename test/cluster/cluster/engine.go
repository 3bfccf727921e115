package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"outrigger.dev/test/cluster/internal/image"
	"outrigger.dev/test/cluster/internal/machine"
	"outrigger.dev/test/cluster/internal/plan"
)

// enginePrograms returns the programs that a container engine needs in componentFolder.
func enginePrograms(e plan.Engine) []string {
	if e == plan.CRIO {
		return []string{"crio", "copyimg", "pinns"}
	}
	return []string{"containerd", "containerd-shim-runc-v2", "ctr"}
}

// engineReady checks that the container engine of a node answers.
func (c *Cluster) engineReady(ctx context.Context, n plan.Node) error {
	question := []string{"ctr", "version"}
	if n.Engine == plan.CRIO {
		question = []string{"crio", "status", "info"}
	}
	_, err := c.Exec(ctx, n.Name, question...)
	return err
}

// importImage imports an image archive on a node.
func (c *Cluster) importImage(ctx context.Context, archive string, n plan.Node) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open image archive: %w", err)
	}
	defer func() { _ = file.Close() }()
	load := c.toContainerd
	if n.Engine == plan.CRIO {
		load = c.toCRIO
	}
	if err := load(ctx, file, n.Name); err != nil {
		return fmt.Errorf("import image %s on %s: %w", archive, n.Name, err)
	}
	return nil
}

func (c *Cluster) toContainerd(ctx context.Context, archive *os.File, node string) error {
	cmd, err := c.NodeCommand(ctx, node, "ctr", "--namespace", "k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	cmd.Stdin = archive
	_, err = output(cmd)
	return err
}

// toCRIO copies an image into the storage of CRI-O, which has no registry to pull from. copyimg
// needs a file on the node.
func (c *Cluster) toCRIO(ctx context.Context, archive *os.File, node string) error {
	name, err := image.ArchiveName(archive)
	if err != nil {
		return err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the archive again: %w", err)
	}
	copied := filepath.Join(machine.NodeDir(node), filepath.Base(archive.Name()))
	defer func() { _ = os.Remove(copied) }()
	if err := writeFile(copied, func(w io.Writer) error {
		_, err := io.Copy(w, archive)
		return err
	}); err != nil {
		return err
	}
	_, err = c.Exec(ctx, node, "copyimg", "--root=/var/lib/containers/storage", "--runroot=/run/containers/storage",
		"--storage-driver=overlay", "--image-name="+name, "--import-from=oci-archive:"+copied)
	return err
}
