#!/bin/sh
# rootfs.sh DIR [PACKAGE]: creates the root file system for programs that link glibc. Its files
# are from the libc6 package of this Debian or Ubuntu, with which the programs are linked. For
# another architecture, they are from PACKAGE, a folder that libc6.sh wrote. "docker build" and
# "images build" both run this script, so their images have the same base.
set -eu
umask 022
dir=$1 package=${2:-}

die() {
	echo "rootfs.sh: $*" >&2
	exit 1
}

# about FIELD: prints a field of the package libc6.
about() {
	if [ -n "$package" ]; then sed -n "s/^$1: //p" "$package/DEBIAN/control"; else dpkg-query -W -f "\${$1}" libc6; fi
}

# damaged: prints the files that differ from the package.
damaged() {
	if [ -n "$package" ]; then (cd "$package" && md5sum --check --quiet DEBIAN/md5sums 2>&1); else dpkg --verify libc6; fi
}

command -v dpkg >/dev/null || die "dpkg is missing: run this on Debian or Ubuntu"
arch=$(about Architecture)
case $arch in
amd64) triplet=x86_64-linux-gnu loader=/lib64/ld-linux-x86-64.so.2 ;;
arm64) triplet=aarch64-linux-gnu loader=/lib/ld-linux-aarch64.so.1 ;;
*) die "no image is made for the architecture $arch: use amd64 or arm64" ;;
esac
found=$(damaged | grep '\.so' || true)
[ -z "$found" ] || die "files differ from the package libc6, ${package:+remove $package, or }install it again (apt-get install --reinstall libc6): $found"
# The package of Debian 12 has the libraries in /lib, and packages of later releases in /usr/lib.
libraries=$package/usr/lib/$triplet
[ -e "$libraries/libc.so.6" ] || libraries=$package/lib/$triplet

# /bin, /sbin and /lib are links into /usr, as in Debian, because files of drivers use both paths.
mkdir -p "$dir/usr/bin" "$dir/usr/sbin" "$dir/usr/lib/$triplet" "$dir/usr/lib64" "$dir/etc" "$dir/tmp" "$dir/run"
chmod 1777 "$dir/tmp"
for name in bin sbin lib lib64; do
	ln -s "usr/$name" "$dir/$name"
done

# The libraries that our programs and the driver's libraries link.
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 \
	libnss_files.so.2 libnss_dns.so.2 "${loader##*/}"; do
	cp -L "$libraries/$name" "$dir/usr/lib/$triplet/$name"
done
# The dynamic linker's path in every program: a link into the folder above.
case $loader in
/lib64/*) ln -s "../lib/$triplet/${loader##*/}" "$dir/usr/lib64/${loader##*/}" ;;
*) ln -s "$triplet/${loader##*/}" "$dir/usr/lib/${loader##*/}" ;;
esac

cat >"$dir/etc/passwd" <<'EOF'
root:x:0:0:root:/:/sbin/nologin
nonroot:x:65532:65532:nonroot:/:/sbin/nologin
nobody:x:65534:65534:nobody:/:/sbin/nologin
EOF
cat >"$dir/etc/group" <<'EOF'
root:x:0:
nonroot:x:65532:
nogroup:x:65534:
EOF
echo 'hosts: files dns' >"$dir/etc/nsswitch.conf"

# The package and its version, for scanners.
cp -L /etc/os-release "$dir/usr/lib/os-release"
ln -s ../usr/lib/os-release "$dir/etc/os-release"
mkdir -p "$dir/var/lib/dpkg/status.d" "$dir/usr/share/doc/libc6"
{
	echo "Package: libc6"
	echo "Status: install ok installed"
	for field in Architecture Source Version Maintainer; do
		echo "$field: $(about "$field")"
	done
} >"$dir/var/lib/dpkg/status.d/libc6"
cp -L "$package/usr/share/doc/libc6/copyright" "$dir/usr/share/doc/libc6/copyright"
