package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/test/cluster/internal/image"
	"outrigger.dev/test/cluster/internal/machine"
)

// Kubectl runs kubectl as the cluster's administrator and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return output(c.KubectlCommand(ctx, args...))
}

// Apply applies manifests.
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	cmd := c.KubectlCommand(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	_, err := output(cmd)
	return err
}

// KubectlCommand returns a kubectl command, not started.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	// The default cache would remain in the user's home.
	all := []string{"--kubeconfig", c.Kubeconfig(), "--cache-dir", filepath.Join(machine.StateDir, "kubectl-cache")}
	return exec.CommandContext(ctx, filepath.Join(c.binDir, componentFolder, "kubectl"), append(all, args...)...)
}

// Exec runs a command on a node, in all its namespaces, and returns its output.
func (c *Cluster) Exec(ctx context.Context, node string, args ...string) (string, error) {
	cmd, err := c.NodeCommand(ctx, node, args...)
	if err != nil {
		return "", err
	}
	return output(cmd)
}

// NodeCommand returns a command that runs on a node, not started. It has the search path
// of the node's components.
func (c *Cluster) NodeCommand(ctx context.Context, node string, args ...string) (*exec.Cmd, error) {
	n, err := c.plan.Node(node)
	if err != nil {
		return nil, err
	}
	pid, err := c.client(n).PID(ctx)
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", args, err)
	}
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=" + c.spec(n).Path(), "HOME=/root", "TERM=" + os.Getenv("TERM")}
	return cmd, nil
}

// Path returns the path of a node's file for processes outside of the node. It is valid while the
// node runs.
func (c *Cluster) Path(ctx context.Context, node, file string) (string, error) {
	n, err := c.plan.Node(node)
	if err != nil {
		return "", err
	}
	pid, err := c.client(n).PID(ctx)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", file, err)
	}
	return filepath.Join("/proc", strconv.Itoa(pid), "root", file), nil
}

// LoadImage imports an image archive on the given nodes, or on all.
func (c *Cluster) LoadImage(ctx context.Context, archive string, nodes ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range c.plan.Nodes {
		if selected(n.Name, nodes) {
			group.Go(func() error { return c.importImage(ctx, archive, n) })
		}
	}
	return group.Wait()
}

// LoadProgram creates an image with one static program of the machine, and imports it on
// the given nodes, or on all.
func (c *Cluster) LoadProgram(ctx context.Context, name, program string, nodes ...string) error {
	file := filepath.Base(program)
	return c.load(ctx, image.Image{Name: name, Program: program, Path: "/usr/bin/" + file, Entrypoint: []string{file}}, nodes)
}

// LoadRoot creates an image with the files of a folder, and imports it on the given nodes,
// or on all.
func (c *Cluster) LoadRoot(ctx context.Context, name, root string, nodes ...string) error {
	return c.load(ctx, image.Image{Name: name, Root: root}, nodes)
}

func (c *Cluster) load(ctx context.Context, i image.Image, nodes []string) error {
	archive := filepath.Join(machine.DataDir, strings.NewReplacer("/", "-", ":", "-").Replace(i.Name)+".tar")
	if err := writeFile(archive, i.WriteArchive); err != nil {
		return err
	}
	return c.LoadImage(ctx, archive, nodes...)
}

// output runs a command and returns its output. Its error includes standard error.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("run %s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
