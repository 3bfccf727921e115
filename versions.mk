# Versions of what is built here and is not pinned by a go.mod.

# The calendar version of the release: YY.MM.PATCH.
VERSION := 26.11.0
# The base of the images that link glibc, as it stands in their tags: the
# release of the machine that builds, since they take its glibc.
OS_BASE := $(shell . /etc/os-release; echo $$ID$$VERSION_ID)
