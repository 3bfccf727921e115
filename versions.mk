# Versions of what is built here and is not pinned by a go.mod.

# The calendar version of the release: YY.MM.PATCH. "make bump TO=VERSION" writes the next one
# here and into all copies.
VERSION := 26.11.0
# The base of the images that link glibc, as it stands in their tags: the
# release of the machine that builds, since they take its glibc.
OS_BASE := $(shell . /etc/os-release; echo $$ID$$VERSION_ID)
# The images of the first stages of images/*/Dockerfile, for "docker build" only: "make
# images" uses none. "make pins" writes them into the Dockerfiles. They have no digests yet,
# because no registry was reachable: add them as golang:1.26-bookworm@sha256:…
GOLANG_IMAGE := golang:1.26-bookworm
DEBIAN_IMAGE := debian:bookworm-slim
# The commit that the images name as their source.
REVISION := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
