// Package stack installs the agents on a real Kubernetes with simulated GPU nodes: it loads their
// images, renders their charts with Helm's engine, and applies the rendered objects. The demo and
// the cluster tests use it.
package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/test/cluster/cluster"
)

// Namespace is the namespace of the agents.
const Namespace = "gpu-operator-resources"

// Stack is a running cluster and the repository whose agents it runs.
type Stack struct {
	*cluster.Cluster
	root string
	// installed has the objects of each chart from its last installation.
	installed map[string][]manifest
	// nfdLoaded says that the nodes have the images of Node Feature Discovery.
	nfdLoaded bool
}

// Up starts a cluster, or uses a running cluster of the same shape. It imports images of the repository at
// root: those that cfg.Images names, such as device-plugin, or all of them.
func Up(ctx context.Context, root string, cfg cluster.Config) (*Stack, error) {
	var err error
	if cfg.Images, err = images(root, cfg.Images); err != nil {
		return nil, err
	}
	cfg.BinDir = filepath.Join(root, "bin")
	c, err := cluster.Up(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Stack{Cluster: c, root: root, installed: map[string][]manifest{}}, nil
}

// Fresh starts a cluster with the images of the repository around the working directory, as Up
// does. It returns an error if a cluster is up already.
func Fresh(ctx context.Context, cfg cluster.Config) (*Stack, error) {
	root, err := FindRoot()
	if err != nil {
		return nil, err
	}
	if c, err := cluster.Open(); err == nil {
		return nil, fmt.Errorf("a cluster of %d nodes is up on this machine; run first: make demo-down", len(c.Nodes()))
	}
	return Up(ctx, root, cfg)
}

// images returns the archives of the repository's images, or of those with names.
func images(root string, names []string) ([]string, error) {
	folder := filepath.Join(root, "out", "images")
	if len(names) > 0 {
		archives := make([]string, len(names))
		for i, name := range names {
			archives[i] = filepath.Join(folder, name+".tar")
		}
		return archives, nil
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.tar"))
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	if len(archives) == 0 {
		return nil, errors.New("list images: out/images has no archive; run: make images")
	}
	return archives, nil
}

// FindRoot returns the folder of the repository: the nearest folder with a go.work, from the
// working directory upwards.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: no go.work here or above; run this inside a checkout")
		}
		dir = parent
	}
}

// Simulate runs a command of gpu-sim, such as "xid" or "mig create", on the simulated GPUs of a
// node.
func (s *Stack) Simulate(ctx context.Context, node, command string, args ...string) (string, error) {
	dir, err := s.GPUSim(node)
	if err != nil {
		return "", err
	}
	return s.Run(ctx, "gpu-sim", slices.Concat(strings.Fields(command), []string{"--root", dir}, args)...)
}

// WaitAllocatable waits until the kubelet of a node advertises n of a resource.
func (s *Stack) WaitAllocatable(ctx context.Context, node, resource string, n int, limit time.Duration) error {
	_, err := s.Kubectl(ctx, "wait", "node/"+node, "--for=jsonpath={"+allocatable(resource)+"}="+strconv.Itoa(n), "--timeout", limit.String())
	return err
}

// Run runs a program of bin/ and returns its standard output. The error includes its standard
// error.
func (s *Stack) Run(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "bin", name), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
