# Versions of everything that is built here and is not a Go module of its own.
# Calendar version of the release: YY.MM.PATCH.
VERSION            := 26.11.0
# The base of the images that link glibc, as it stands in their tags.
OS_BASE            := debian12
KUBERNETES_VERSION := 1.36.3
