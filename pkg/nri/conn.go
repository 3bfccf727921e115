package nri

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// conn is a connection that closes the channel ended after an error of Read.
type conn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.once.Do(func() { close(c.ended) })
	}
	return n, err
}

// stubLog logs messages of the library at the level debug. Run reports the errors.
type stubLog struct{ log *slog.Logger }

func (l stubLog) message(ctx context.Context, format string, args []any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "message of the nri library", "message", fmt.Sprintf(format, args...))
	}
}

func (l stubLog) Debugf(ctx context.Context, format string, args ...any) {
	l.message(ctx, format, args)
}

func (l stubLog) Infof(ctx context.Context, format string, args ...any) { l.message(ctx, format, args) }

func (l stubLog) Warnf(ctx context.Context, format string, args ...any) { l.message(ctx, format, args) }

func (l stubLog) Errorf(ctx context.Context, format string, args ...any) {
	l.message(ctx, format, args)
}
