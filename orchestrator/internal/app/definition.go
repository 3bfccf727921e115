package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/pkg/agent"
)

// definitionTimeout is the default time limit of a change of the CRD.
const definitionTimeout = 2 * time.Minute

// applyDefinition applies the CRD. Helm runs it before each installation and each upgrade.
func (s *settings) applyDefinition(c *cli.Context) error {
	return s.withCluster(c, definition.Apply)
}

// deleteDefinition deletes the CRD. Helm runs it after "helm uninstall", if the values ask for it.
func (s *settings) deleteDefinition(c *cli.Context) error {
	return s.withCluster(c, func(ctx context.Context, client *cluster.Client, _ *slog.Logger) error {
		return definition.Delete(ctx, client)
	})
}

// withCluster calls do with a client, for the time of the flag --timeout.
func (s *settings) withCluster(c *cli.Context, do func(context.Context, *cluster.Client, *slog.Logger) error) error {
	ctx, cancel := context.WithTimeout(c.Context, s.timeout)
	defer cancel()
	store, err := s.openStore()
	if err != nil {
		return err
	}
	if _, err := store.Client.Version(ctx); err != nil {
		return err
	}
	return do(ctx, store.Client, agent.Logger(c))
}
