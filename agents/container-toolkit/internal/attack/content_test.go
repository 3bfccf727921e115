package attack_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

// maxMemory is far more than a hook needs, in KiB.
const maxMemory = 256 << 10

// Files of an image that would make a reader run out of memory or time, or block.
func TestHostileContent(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	for name, make := range map[string]func(v *victim){
		"an endless cache": func(v *victim) { v.sparse("etc/ld.so.cache", 1<<40) },
		"a cache with too many entries": func(v *victim) {
			v.image("etc/ld.so.cache", "glibc-ld.so.cache1.1\xff\xff\xff\xff"+strings.Repeat("\x00", 64))
		},
		"a cache of entries only": func(v *victim) {
			b := append([]byte("glibc-ld.so.cache1.1"), binary.NativeEndian.AppendUint32(nil, 600_000)...)
			v.image("etc/ld.so.cache", string(append(b, bytes.Repeat([]byte{1}, 600_000*24+24)...)))
		},
		"an endless ld.so.conf":     func(v *victim) { v.sparse("etc/ld.so.conf", 1<<40) },
		"an ld.so.conf of one line": func(v *victim) { v.image("etc/ld.so.conf", strings.Repeat("/a", 30_000)) },
		"an ld.so.conf that includes itself": func(v *victim) {
			v.image("etc/ld.so.conf", strings.Repeat("include /etc/ld.so.conf /etc/ld.so.conf.d/*.conf\n", 900))
			v.image("etc/ld.so.conf.d/x.conf", "include ../ld.so.conf\ninclude /*/*/*/*/*\ninclude [[[\n")
		},
		"an ld.so.conf that includes folders without end": func(v *victim) {
			v.image("loop/x", "")
			for i := range 20_000 {
				v.must(os.Symlink(".", v.rootfs("loop/"+strconv.Itoa(i))))
			}
			v.image("etc/ld.so.conf", "include /loop"+strings.Repeat("/*", 1500)+"\n")
		},
		"many files of ld.so.conf.d": func(v *victim) {
			for i := range 3000 {
				v.image("etc/ld.so.conf.d/"+strconv.Itoa(i)+".conf", "/lib"+strconv.Itoa(i)+"\n")
			}
		},
		"an endless library": func(v *victim) { v.sparse(libDir+"/libx.so.1", 1<<40) },
		"a library of ones": func(v *victim) {
			v.image(libDir+"/libx.so.1", "\x7fELF\x02\x01\x01"+strings.Repeat("\xff", 4096))
			v.image("usr/local/cuda/compat/libcuda.so.999.1.2", "\x7fELF\x02\x01\x01"+strings.Repeat("\xff", 4096))
		},
		"an endless CUDA library": func(v *victim) { v.sparse("usr/local/cuda/compat/libcuda.so.999.1.2", 1<<40) },
		"a pipe for each file": func(v *victim) {
			for _, name := range []string{"etc/ld.so.conf", "etc/ld.so.cache", libDir + "/libx.so.1", "etc/ld.so.conf.d/x.conf", "usr/local/cuda/compat/libcuda.so.999.1.2"} {
				v.must(os.RemoveAll(v.rootfs(name)))
				v.must(unix.Mkfifo(v.rootfs(name), 0o666))
			}
		},
		"a device for each file": func(v *victim) {
			for _, name := range []string{"etc/ld.so.conf", "etc/ld.so.cache", libDir + "/libx.so.1", "etc/ld.so.conf.d/x.conf", "usr/local/cuda/compat/libcuda.so.999.1.2"} {
				v.must(os.RemoveAll(v.rootfs(name)))
				v.must(unix.Mknod(v.rootfs(name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))) // /dev/zero
			}
		},
		"a folder for each file": func(v *victim) {
			for _, name := range []string{"etc/ld.so.conf", "etc/ld.so.cache", libDir + "/libx.so.1", "etc/ld.so.conf.d/00-nvcr-driver.conf", "usr/local/cuda/compat/libcuda.so.999.1.2"} {
				v.must(os.RemoveAll(v.rootfs(name)))
				v.must(os.MkdirAll(v.rootfs(name)+"/x", 0o777))
			}
		},
		"links in a circle": func(v *victim) {
			v.link("libb.so.1", libDir+"/liba.so.1")
			v.link("liba.so.1", libDir+"/libb.so.1")
			v.link("ld.so.conf", "etc/ld.so.conf")
		},
		"names that are no text": func(v *victim) { v.image(libDir+"/lib\xff\x01\n.so.99999999999999999999", "\x7fELF") },
		"many libraries": func(v *victim) {
			for i := range 20_000 {
				v.must(os.Symlink("x", v.rootfs(libDir+"/lib"+strconv.Itoa(i)+".so.1")))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			make(v)
			v.arm()
			for _, args := range hooks(t) {
				cmd := v.tool("nvidia-cdi-hook", args...)
				v.finish(cmd)
				if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; used > maxMemory {
					t.Errorf("%s used %d KiB", args[0], used)
				}
			}
			v.check()
		})
	}
}

// sparse makes a file that seems large.
func (v *victim) sparse(name string, size int64) {
	v.Helper()
	v.image(name, "glibc-ld.so.cache1.1\n")
	v.must(os.Truncate(v.rootfs(name), size))
}

// Mounts in a container must not be seen on the host, also where a container with shared
// volumes makes all mounts shared.
func TestMountsAreNotSeenOnTheHost(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	v := newVictim(t)
	// The parameters of a driver, which this machine may not have.
	if err := unix.Mount("driver", "/proc/driver", "tmpfs", 0, ""); err != nil {
		t.Skipf("this machine has no /proc/driver: %v", err)
	}
	defer unix.Unmount("/proc/driver", unix.MNT_DETACH)
	v.must(os.MkdirAll("/proc/driver/nvidia", 0o755))
	v.must(os.WriteFile("/proc/driver/nvidia/params", []byte("ModifyDeviceFiles: 1\n"), 0o444))
	root := v.rootfs("")
	for _, m := range []string{root, filepath.Join(root, "proc")} {
		v.must(unix.Mount(m, m, "", unix.MS_BIND, ""))
		defer unix.Unmount(m, unix.MNT_DETACH)
		v.must(unix.Mount("", m, "", unix.MS_SHARED, ""))
	}
	v.arm()
	before := mounts(t)
	if !v.run("disable-device-node-modification") {
		t.Error("the hook failed")
	}
	if !v.run(prepare(t)...) {
		t.Error("the hook failed")
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts on the host:\n%s\nbefore:\n%s", after, before)
	}
	v.check()
}

func mounts(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
