package mps

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings limit the clients of a server.
type settings struct {
	threads float64 // percent of the threads of a GPU; no effect on a simulated GPU
	// memory has the limits of GPU memory in bytes, by the index or the UUID of the device.
	memory map[string]uint64
}

// command runs a command of the command line, and returns its output.
func (d *daemon) command(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("no command")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name, args := words[0], words[1:]
	for _, c := range d.commands() {
		if c.name != name {
			continue
		}
		if len(args) < c.least || len(args) > c.most {
			return "", fmt.Errorf("%s: want %s %s", name, name, c.usage)
		}
		out, err := c.run(args)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return out, nil
	}
	return "", fmt.Errorf("unknown or not simulated command: %s", name)
}

// command describes a command. Its function runs with d.mu held.
type command struct {
	name, usage string
	// least and most limit the number of arguments.
	least, most int
	run         func(args []string) (string, error)
}

func (d *daemon) commands() []command {
	return []command{
		{"start_server", "-uid UID", 2, 2, d.startFor},
		{"get_server_list", "", 0, 0, func([]string) (string, error) { return lines(d.servers()), nil }},
		{"get_server_status", "PID", 1, 1, func(args []string) (string, error) { return "ACTIVE\n", d.isServer(args[0]) }},
		{"shutdown_server", "PID [-f]", 1, 2, d.shutDown},
		{"get_client_list", "PID", 1, 1, func(args []string) (string, error) { return lines(d.clientPIDs()), d.isServer(args[0]) }},
		{"get_device_client_list", "[PID]", 0, 1, d.deviceClients},
		{"get_default_active_thread_percentage", "", 0, 0, func([]string) (string, error) {
			return fmt.Sprintf("%.1f\n", d.defaults.threads), nil
		}},
		{"set_default_active_thread_percentage", "PERCENTAGE", 1, 1, d.setThreads},
		{"get_default_device_pinned_mem_limit", "DEVICE", 1, 1, func(args []string) (string, error) {
			return formatMemory(d.defaults.memory[args[0]]) + "\n", checkDevice(args[0])
		}},
		{"set_default_device_pinned_mem_limit", "DEVICE SIZE", 2, 2, d.setMemory},
		{"quit", "[-t SECONDS]", 0, 2, d.quit},
	}
}

func (d *daemon) startFor(args []string) (string, error) {
	uid, err := strconv.ParseUint(args[1], 10, 31)
	if args[0] != "-uid" || err != nil {
		return "", fmt.Errorf("%s: want -uid UID", strings.Join(args, " "))
	}
	return "", d.serverFor(int(uid))
}

func (d *daemon) servers() []int {
	if d.server == nil {
		return nil
	}
	return []int{d.server.pid}
}

func (d *daemon) isServer(pid string) error {
	if d.server == nil || pid != strconv.Itoa(d.server.pid) {
		return fmt.Errorf("%s: no server has this PID", pid)
	}
	return nil
}

// shutDown ends the server when its clients have ended. With -f, it ends the clients.
func (d *daemon) shutDown(args []string) (string, error) {
	if err := d.isServer(args[0]); err != nil {
		return "", err
	}
	if len(args) > 1 {
		if args[1] != "-f" {
			return "", fmt.Errorf("%s: want -f", args[1])
		}
		d.endClients()
	}
	for s := d.server; d.server == s && len(d.clients) > 0; {
		d.changed.Wait()
	}
	d.endServer()
	return "", nil
}

func (d *daemon) clientPIDs() []int {
	var pids []int
	for _, c := range d.clients {
		pids = append(pids, c.pid)
	}
	slices.Sort(pids)
	return pids
}

// deviceClients returns a line for each device with the clients of the server, which have all devices.
func (d *daemon) deviceClients(args []string) (string, error) {
	if len(args) > 0 {
		if err := d.isServer(args[0]); err != nil {
			return "", err
		}
	}
	if d.server == nil {
		return "", nil
	}
	pids := strings.Fields(lines(d.clientPIDs()))
	var b strings.Builder
	for _, uuid := range d.server.devices {
		fmt.Fprintln(&b, strings.Join(append([]string{uuid}, pids...), " "))
	}
	return b.String(), nil
}

func (d *daemon) setThreads(args []string) (string, error) {
	percent, err := strconv.ParseFloat(args[0], 64)
	if err != nil || percent <= 0 || percent > 100 {
		return "", fmt.Errorf("%s: want a percentage greater than 0, at most 100", args[0])
	}
	d.defaults.threads = percent
	return "", nil
}

func (d *daemon) setMemory(args []string) (string, error) {
	limit, err := parseMemory(args[1])
	if err := errors.Join(checkDevice(args[0]), err); err != nil {
		return "", err
	}
	d.defaults.memory[args[0]] = limit
	return "", nil
}

func checkDevice(text string) error {
	if _, err := strconv.ParseUint(text, 10, 8); err == nil || strings.HasPrefix(text, "GPU-") || strings.HasPrefix(text, "MIG-") {
		return nil
	}
	return fmt.Errorf("device %s: want an index or a UUID", text)
}

// Sizes of memory, in bytes.
const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

// parseMemory reads a number followed by M or G.
func parseMemory(text string) (uint64, error) {
	for unit, bytes := range map[string]uint64{"M": mebibyte, "G": gibibyte} {
		digits, ok := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseUint(digits, 10, 32); ok && err == nil {
			return n * bytes, nil
		}
	}
	return 0, fmt.Errorf("size %s: want a number followed by M or G, such as 10G", text)
}

// formatMemory returns a limit as NVIDIA's daemon prints it, which rounds down to gibibytes.
func formatMemory(bytes uint64) string {
	if bytes >= gibibyte {
		return fmt.Sprintf("%dG", bytes/gibibyte)
	}
	return fmt.Sprintf("%dM", bytes/mebibyte)
}

// quit ends the server when its clients have ended, or after the time of -t, and then the daemon.
func (d *daemon) quit(args []string) (string, error) {
	if len(args) > 0 {
		seconds, err := strconv.ParseUint(args[len(args)-1], 10, 31)
		if args[0] != "-t" || err != nil {
			return "", fmt.Errorf("%s: want -t SECONDS", strings.Join(args, " "))
		}
		late := time.AfterFunc(time.Duration(seconds)*time.Second, func() { //nolint:gosec // at most 31 bits
			d.mu.Lock()
			defer d.mu.Unlock()
			d.endClients()
		})
		defer late.Stop()
	}
	d.quitting = true
	d.changed.Broadcast()
	for len(d.clients) > 0 {
		d.changed.Wait()
	}
	d.endServer()
	_ = d.listener.Close() // another quit may have closed it
	return "", nil
}

func lines(numbers []int) string {
	var b strings.Builder
	for _, n := range numbers {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}
