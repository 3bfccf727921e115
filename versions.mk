# Versions of what is built here and is not pinned by a go.mod.

# The calendar version of the release: YY.MM.PATCH. "make bump TO=VERSION" writes the next one
# here and into all copies.
VERSION := 26.11.0
# The base of the images that link glibc, as it stands in their tags: the
# release of the machine that builds, since they take its glibc.
OS_BASE := $(shell . /etc/os-release; echo $$ID$$VERSION_ID)
# The Go with which everything is built. An older or newer one downloads it as a Go module. The machine
# needs Go 1.26 or newer. "make pins" writes it into the Dockerfile.
GO_VERSION := 1.26.11
# The images of the first stages of images/Dockerfile, for "docker build" only: "make
# images" uses none. A digest is that of the index of all platforms. "make pins" writes them
# into the Dockerfile.
GOLANG_IMAGE := golang:1.26-bookworm@sha256:9fdc884aacc3bec89b20ffc69f4bb369c78210e3e4f600387b5128b12c199f81
DEBIAN_IMAGE := debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
# The commit that the images name as their source.
REVISION := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
