// Package jobs reads which jobs of an HPC scheduler use which GPUs. It reads the folder of
// --hpc-job-mapping-dir, where the prolog and epilog of jobs write one file for each GPU or GPU
// instance. NVIDIA's dcgm-exporter defines the format.
package jobs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// The limits for the files. They are necessary because the users who can write to the folder are
// often not root, and they determine labels of metrics.
const (
	mostFiles = 4096
	mostBytes = 64 << 10 // of a file
	mostJobs  = 256      // in a file
	mostID    = 256      // bytes of a job ID
)

// Device is a GPU or a GPU instance.
type Device struct {
	// GPU is the NVML index of the GPU.
	GPU int
	// Instance is the ID of the GPU instance, or gpu.NoInstance for the whole GPU.
	Instance uint32
}

// Jobs has the IDs of the jobs that use a device, each once, in the order of the file. Devices
// without jobs are missing. The jobs of a GPU do not include the jobs of its instances.
type Jobs map[Device][]string

// Read reads the folder. The file "0" has the jobs of GPU 0, and the file "0.7" has the jobs of GPU
// instance 7 of GPU 0, with one ID per line. Read ignores files with other names. It rejects links
// and other files that are not regular, files that are too large, and files with an ID that is too
// long or not printable. If it rejects files, it returns an error that names each one, and the jobs
// of the other files.
func Read(dir string) (Jobs, error) {
	names, err := listNames(dir)
	jobs := Jobs{}
	for _, name := range names {
		device, ok := parseName(name)
		if !ok {
			continue
		}
		ids, failed := read(filepath.Join(dir, name))
		if errors.Is(failed, fs.ErrNotExist) {
			continue // the job has ended
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("read the jobs of a GPU: %w", failed))
			continue
		}
		for _, job := range ids {
			if !slices.Contains(jobs[device], job) {
				jobs[device] = append(jobs[device], job)
			}
		}
	}
	return jobs, err
}

// listNames returns the names of the files in the folder, sorted.
func listNames(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) // without O_DIRECTORY, a named pipe would block
	if err != nil {
		return nil, fmt.Errorf("read the folder of HPC jobs: %w: make the folder, or remove --hpc-job-mapping-dir", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(mostFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the folder of HPC jobs %s: %w", dir, err)
	}
	if len(names) > mostFiles {
		return nil, fmt.Errorf("read the folder of HPC jobs %s: it has more than %d entries: use a folder that has the files of jobs only", dir, mostFiles)
	}
	slices.Sort(names)
	return names, nil
}

// parseName parses the name of a file: ^\d+(\.\d+)?$.
func parseName(name string) (Device, bool) {
	index, instance, cut := strings.Cut(name, ".")
	d := Device{Instance: gpu.NoInstance}
	n, ok := parseNumber(index)
	d.GPU = int(n)
	if ok && cut {
		d.Instance, ok = parseNumber(instance)
	}
	return d, ok
}

// parseNumber parses decimal digits. It returns false for a number that is too large for any GPU.
func parseNumber(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err == nil && s[0] != '+'
}

func read(path string) ([]string, error) {
	// A link could lead to a file that only root may read, and a named pipe would block.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a link: replace it by a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: remove it", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostBytes {
		return nil, fmt.Errorf("%s is larger than %d KiB: write the id of one job in each line, and nothing else", path, mostBytes>>10)
	}
	return parseIDs(path, string(data))
}

// parseIDs returns the lines that are not empty.
func parseIDs(path, data string) ([]string, error) {
	var out []string
	for line := range strings.Lines(data) {
		id := strings.TrimSpace(line)
		switch {
		case id == "":
			continue
		case len(id) > mostID || text.Printable(id) != id:
			return nil, fmt.Errorf("%s has the id %q: write ids of at most %d printable characters", path, text.Cut(id, 40), mostID)
		case len(out) == mostJobs:
			return nil, fmt.Errorf("%s has more than %d jobs: remove those that have ended", path, mostJobs)
		}
		out = append(out, id)
	}
	return out, nil
}
