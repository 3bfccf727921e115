{{- /* The image of a chart. Argument: the root context of the chart, or, for another image, (dict
"root" $ "values" with image, repository and version "at" their path, with a dot at its end "name" the
default name of the image "beside" the values of an image in the same registry, if global.registry is not
set). The values have the form
image.repository and image.tag, or the form of NVIDIA's operator: repository, image and version. An image of NVIDIA does
not have the programs of the chart: the values then have no effect, and the notes name them. An image that may be NVIDIA's is
a problem. */ -}}
{{- define "outrigger.image" -}}
{{- $root := default . .root -}}
{{- $values := default $root.Values .values -}}
{{- $at := index (default dict $root.Chart.Annotations) "outrigger.dev/image-path" -}}
{{- if or .at (not $at) }}{{ $at = printf "%s%s" (include "outrigger.path" $root) (default "" .at) }}{{ end -}}
{{- $name := default $root.Chart.Name .name -}}
{{- $tag := printf "%s-%s" $root.Chart.AppVersion (index $root.Chart.Annotations "outrigger.dev/os-base") -}}
{{- $image := $values.image -}}
{{- $repository := "" -}}
{{- $theirs := include "outrigger.theirImage" $values -}}
{{- if eq $theirs "unsure" }}{{ include "outrigger.unsureImage" (dict "root" $root "values" $values "at" $at "name" $name) }}{{ end -}}
{{- if $theirs }}{{ $image = "" -}}
{{- else if kindIs "map" $image -}}
{{- $tag = include "outrigger.tag" (dict "root" $root "path" (printf "%simage.tag" $at) "value" $image.tag) | default $tag -}}
{{- $repository = include "outrigger.noScheme" (dict "root" $root "value" $image.repository "path" (printf "%simage.repository" $at)) -}}
{{- else if or $image $values.repository $values.version -}}
{{- $tag = include "outrigger.tag" (dict "root" $root "path" (printf "%sversion" $at) "value" $values.version) | default $tag -}}
{{- with include "outrigger.noScheme" (dict "root" $root "value" $values.repository "path" (printf "%srepository" $at)) -}}
{{- $repository = printf "%s/%s" . (default $name $image) -}}
{{- end -}}
{{- end -}}
{{- if not $repository -}}
{{- $repository = printf "%s/%s" (include "outrigger.registry" (dict "root" $root "beside" .beside)) (kindIs "map" $image | ternary $name (default $name $image)) -}}
{{- end -}}
{{- printf "%s%s%s" $repository (hasPrefix "sha256:" $tag | ternary "@" ":") $tag -}}
{{- end -}}

{{- /* The path of a chart's values, for messages: "devicePlugin." in the umbrella, and empty for a chart that is installed
alone. */ -}}
{{- define "outrigger.path" -}}
{{- with index (default dict .Chart.Annotations) "outrigger.dev/path" }}{{ . }}
{{- else with .Template }}
{{- if contains "/charts/" .BasePath }}{{ regexReplaceAll "^.*/charts/([^/]+)/templates$" .BasePath "${1}." }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* The registry of the images whose values do not name one. The orchestrator has a ClusterPolicy that
Helm has checked, or that is older than this check. Argument: (dict "root" $ "beside" …). */ -}}
{{- define "outrigger.registry" -}}
{{- $registry := include "outrigger.noScheme" (dict "root" .root "value" (default dict .root.Values.global).registry "path" "global.registry") -}}
{{- if and .beside (not $registry) -}}
{{- $registry = default "" .beside.repository -}}
{{- if kindIs "map" .beside.image }}{{ $registry = regexFind "^.*/" (default "" .beside.image.repository) }}{{ end -}}
{{- $registry = regexReplaceAll "/+$" $registry "" | default "outrigger.dev" -}}
{{- end -}}
{{- if not (or $registry (eq "outrigger" .root.Release.Service)) -}}
{{- include "outrigger.problem" (dict "root" .root "full" true "path" "global.registry" "reason" "the chart does not know the registry of its images"
  "instead" "run \"make images push REGISTRY=registry.example.org/gpu\" and set global.registry=registry.example.org/gpu, or set global.registry=outrigger.dev if the images are loaded on each node"
  "set" (dict "global.registry" "outrigger.dev")) -}}
{{- end -}}
{{- default "outrigger.dev" $registry -}}
{{- end -}}

{{- /* A registry, or the first part of an image's name, without slashes at its end. Argument: (dict
"root" $ "value" … "path" the whole path of the value). */ -}}
{{- define "outrigger.noScheme" -}}
{{- $value := default "" .value | toString -}}
{{- $name := regexReplaceAll "^.*://|/+$" $value "" -}}
{{- if contains "://" $value -}}
{{- include "outrigger.problem" (dict "root" .root "full" true "path" .path "reason" (printf "%q has a scheme, and names of images have none" $value)
  "set" (dict .path $name)) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /* A tag or a digest. Empty for none. Argument: (dict "root" $ "path" the whole path of the value "value" …). */ -}}
{{- define "outrigger.tag" -}}
{{- $tag := default "" .value | toString -}}
{{- if and $tag (not (regexMatch `^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$` $tag)) -}}
{{- include "outrigger.problem" (dict "root" .root "full" true "path" .path "reason" (printf "%q is not a tag of an image" $tag)
  "instead" "set it to a tag such as 26.11.0-debian12, or to a digest sha256:…, or remove it" "remove" (list .path)) -}}
{{- else }}{{ $tag }}{{ end -}}
{{- end -}}

{{- /* "true" if values name an image of NVIDIA: by its registry. "unsure" if only its name or its tag is like one of NVIDIA's: it may be a
mirror of NVIDIA's image, or a build of the user, and the chart must not decide. A mirror of our images keeps our tags. Argument: values with
image, repository and version. */ -}}
{{- define "outrigger.theirImage" -}}
{{- $repository := "" -}}
{{- $tag := "" -}}
{{- if kindIs "map" .image -}}
{{- $repository = default "" .image.repository -}}
{{- $tag = toString (default "" .image.tag) -}}
{{- else -}}
{{- $repository = printf "%s/%s" (default "" .repository) (default "" .image) | trimSuffix "/" | trimPrefix "/" -}}
{{- if not .image }}{{ $repository = printf "%s/" $repository | trimPrefix "/" }}{{ end -}}
{{- $tag = toString (default "" .version) -}}
{{- end -}}
{{- $name := regexFind `[^/]*$` $repository -}}
{{- $ours := regexMatch `^2[0-9]\.[0-9]{1,2}\.[0-9]+.*$` $tag -}}
{{- $theirTag := regexMatch `^(v[0-9]+|0)\.[0-9]+\.[0-9]+|^[0-9]\.[0-9]+\.[0-9]+-[0-9]\.[0-9]+\.[0-9]+` $tag -}}
{{- if or (regexMatch `^nvcr\.io/nvidia(/|$)` $repository) (and (regexMatch `^((docker|ghcr)\.io/)?nvidia(/|$)` $repository) (not $ours)) }}true
{{- else if and (has $name (list "k8s-device-plugin" "gpu-feature-discovery" "k8s-mig-manager" "k8s-driver-manager" "k8s-dra-driver-gpu" "gpu-operator" "gpu-operator-validator")) (not $ours) }}unsure
{{- else if and $theirTag (has $name (list "" "container-toolkit" "dcgm-exporter")) }}unsure{{ end -}}
{{- end -}}

{{- /* The keys of an image that values set, as a YAML list. Argument: (dict "values" … "at" their path, with a dot at its end). */ -}}
{{- define "outrigger.imageKeys" -}}
{{- $keys := list -}}
{{- range kindIs "map" .values.image | ternary (list "image.repository" "image.tag") (list "repository" "image" "version") -}}
{{- $at := dict "it" $.values -}}
{{- range splitList "." . }}{{ $_ := set $at "it" (get $at.it .) }}{{ end -}}
{{- if $at.it }}{{ $keys = append $keys (printf "%s%s" (default "" $.at) .) }}{{ end -}}
{{- end -}}
{{- toYaml $keys -}}
{{- end -}}

{{- /* Records the problem of an image that may be NVIDIA's. Argument: (dict "root" $ "values" … "at" their path "name" the name of our image). */ -}}
{{- define "outrigger.unsureImage" -}}
{{- $keys := include "outrigger.imageKeys" . | fromYamlArray -}}
{{- $all := gt (len $keys) 1 | ternary (printf "%s and %s" (initial $keys | join ", ") (last $keys)) (first $keys) -}}
{{- include "outrigger.problem" (dict "root" .root "full" true "path" (first $keys) "remove" $keys
  "reason" "the image has a name or a tag of NVIDIA's images, which do not have the programs of this chart"
  "instead" (printf "remove %s to run the image of the chart; for an image of your own with its programs, write the name %s and a tag such as %s-debian12" $all .name .root.Chart.AppVersion)) -}}
{{- end -}}

{{- /* A line for the notes if values name an image of NVIDIA. Argument: (dict "values" … "at" their path, with a dot at its end). */ -}}
{{- define "outrigger.theirImageNote" -}}
{{- if eq "true" (include "outrigger.theirImage" .values) -}}
{{- $keys := include "outrigger.imageKeys" . | fromYamlArray -}}
{{- printf "%s: the chart runs its own image, not NVIDIA's; remove %s" (first $keys) (gt (len $keys) 1 | ternary (printf "%s and %s" (initial $keys | join ", ") (last $keys)) (first $keys)) -}}
{{- end -}}
{{- end -}}

{{- define "outrigger.pullPolicy" -}}
{{- $image := kindIs "map" .Values.image | ternary .Values.image dict -}}
{{- $image.pullPolicy | default .Values.imagePullPolicy | default (default dict .Values.global).imagePullPolicy | default "IfNotPresent" -}}
{{- end -}}

{{- /* The pull secrets of the chart and of its parent chart. An entry is {name: …} or a name. */ -}}
{{- define "outrigger.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (default list .Values.imagePullSecrets) (default list (default dict .Values.global).imagePullSecrets) -}}
{{- $names = append $names (kindIs "map" . | ternary . (dict "name" .)) -}}
{{- end -}}
{{- with uniq $names -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
