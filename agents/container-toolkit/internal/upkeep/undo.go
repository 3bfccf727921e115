package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// undoLimit bounds the removal, which has to end within the grace period of the pod.
const undoLimit = 20 * time.Second

// Undoing describes how everything is taken back.
type Undoing struct {
	// Steps take parts back, in this order. An error does not keep the later ones from
	// their work.
	Steps []Undo
	// Users returns what runs on the host and still needs the tools.
	Users func() []string
	// RemoveTools removes the tools.
	RemoveTools func() error
	// ToolsDir is the folder of the tools on the host.
	ToolsDir string
	Log      *slog.Logger
}

// Undo takes one part back.
type Undo struct {
	Part Part
	Do   func(context.Context) error
}

// Run takes everything back. It goes on when ctx ends, for 20 s at most.
//
// The tools stay while there are containers that were started through them: to stop such a
// container, its engine starts the same tool again. They also stay while a part that refers
// to them could not be taken back: an engine with a runtime that is gone starts nothing.
func (u Undoing) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	u.Log.Info("the DaemonSet of this agent is deleted, taking back all changes of the node")
	var errs []error
	for _, s := range u.Steps {
		if err := s.Do(ctx); err != nil {
			u.Log.Error("cannot take back a part of the toolkit", "part", string(s.Part), "err", err)
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		u.Log.Error("the tools stay, since a part that refers to them could not be taken back: take it back by hand, then remove the folder",
			"command", Unconfigure(u.ToolsDir), "folder", u.ToolsDir)
		return errors.Join(errs...)
	}
	if users := u.Users(); len(users) > 0 {
		u.Log.Warn("the tools stay, since containers that were started through them still run: remove the folder when they have ended",
			"folder", u.ToolsDir, "containers", strings.Join(users, ", "))
		return nil
	}
	return u.RemoveTools()
}

// Unconfigure returns the command that takes back the config of the container engine on a
// node, where dir is the folder of the tools.
func Unconfigure(dir string) string { return dir + "/nvidia-ctk runtime unconfigure" }
