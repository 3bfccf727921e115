package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"outrigger.dev/pkg/hostfs"
)

// Levels of log messages, in order of severity.
const (
	levelError = iota
	levelWarn
	levelInfo
	levelDebug
)

// logger writes to the debug file, which nvidia-container-runtime.debug in config.toml names, and
// to the log of the low-level runtime. Engines read errors from the low-level runtime's log.
type logger struct {
	call call
	// file is nil if no debug file is configured.
	file  *os.File
	level int
}

// open opens the log file that config.toml names.
func (l *logger) open(path, level string) error {
	levels := []string{"error", "warn", "info", "debug"}
	l.level = max(levelError, slices.Index(levels, strings.TrimSuffix(strings.ToLower(level), "ing")))
	if l.call.debug || strings.EqualFold(level, "trace") {
		l.level = levelDebug
	}
	if path == "" || path == os.DevNull {
		return nil
	}
	f, err := hostfs.OpenLog(path, 0o644, 0)
	if err != nil {
		return fmt.Errorf("open log file: %w (nvidia-container-runtime.debug in config.toml)", err)
	}
	l.file = f
	return nil
}

// log writes a message to the debug file. Errors, warnings, and all messages in debug mode also go
// to the low-level runtime's log.
func (l *logger) log(level int, message string) {
	if level > l.level {
		return
	}
	if l.file != nil {
		fmt.Fprint(l.file, entry(level, message, false))
	}
	if l.call.log == "" || level > levelWarn && !l.call.debug {
		return
	}
	f, err := hostfs.OpenLog(l.call.log, 0o644, 0)
	if err != nil {
		fmt.Fprintf(os.Stderr, "nvidia-container-runtime: open log file: %v\n", err)
		return
	}
	defer f.Close()
	fmt.Fprint(f, entry(level, message, l.call.json))
}

// entry returns a message in the text format or in the JSON format of runc.
func entry(level int, message string, inJSON bool) string {
	name := []string{"error", "warning", "info", "debug"}[level]
	now := time.Now().Format(time.RFC3339)
	if !inJSON {
		return fmt.Sprintf("time=%q level=%s msg=%q\n", now, name, message)
	}
	line, err := json.Marshal(map[string]string{"level": name, "msg": message, "time": now})
	if err != nil {
		return ""
	}
	return string(line) + "\n"
}
