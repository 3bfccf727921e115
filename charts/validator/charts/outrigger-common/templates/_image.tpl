{{- /* The image of a chart. Argument: the root context of the chart, or, for another image, (dict
"root" $ "values" with image, repository and version "at" their path, with a dot at its end "name" the
default name of the image "beside" the values of an image in the same registry, if global.registry is not
set). The values have the form
image.repository and image.tag, or the form of NVIDIA's operator: repository, image and version. */ -}}
{{- define "outrigger.image" -}}
{{- $root := default . .root -}}
{{- $values := default $root.Values .values -}}
{{- $at := printf "%s%s" (include "outrigger.path" $root) (default "" .at) -}}
{{- $name := default $root.Chart.Name .name -}}
{{- $tag := printf "%s-%s" $root.Chart.AppVersion (index $root.Chart.Annotations "outrigger.dev/os-base") -}}
{{- $image := $values.image -}}
{{- $repository := "" -}}
{{- if kindIs "map" $image -}}
{{- $tag = default $tag $image.tag -}}
{{- $repository = include "outrigger.noScheme" (dict "value" $image.repository "in" (printf "%simage.repository" $at)) -}}
{{- include "outrigger.checkImage" (dict "repository" $repository "tag" $image.tag "in" (printf "%simage.repository" $at) "keys" (printf "%[1]simage.repository and %[1]simage.tag" $at) "version" (printf "%simage.tag" $at)) -}}
{{- else if or $image $values.repository $values.version -}}
{{- $tag = toString (default $tag $values.version) -}}
{{- with include "outrigger.noScheme" (dict "value" $values.repository "in" (printf "%srepository" $at)) -}}
{{- $repository = printf "%s/%s" . (default $name $image) -}}
{{- end -}}
{{- include "outrigger.checkImage" (dict "repository" (default $image $repository | default "") "tag" $values.version "in" (printf "%simage" $at) "keys" (printf "%[1]srepository, %[1]simage and %[1]sversion" $at) "version" (printf "%sversion" $at)) -}}
{{- end -}}
{{- if not $repository -}}
{{- $repository = printf "%s/%s" (include "outrigger.registry" (dict "root" $root "name" $name "beside" .beside)) (kindIs "map" $image | ternary $name (default $name $image)) -}}
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
Helm has checked, or that is older than this check. Argument: (dict "root" $ "name" the name of the
image "beside" …). */ -}}
{{- define "outrigger.registry" -}}
{{- $registry := include "outrigger.noScheme" (dict "value" (default dict .root.Values.global).registry "in" "global.registry") -}}
{{- if and .beside (not $registry) -}}
{{- $registry = default "" .beside.repository -}}
{{- if kindIs "map" .beside.image }}{{ $registry = regexFind "^.*/" (default "" .beside.image.repository) }}{{ end -}}
{{- $registry = regexReplaceAll "/+$" $registry "" | default "outrigger.dev" -}}
{{- end -}}
{{- if not (or $registry (eq "outrigger" .root.Release.Service)) -}}
{{- fail (printf "global.registry: the chart does not know the registry of the image %s; run \"make images push REGISTRY=registry.example.org/gpu\" and set global.registry=registry.example.org/gpu, or set global.registry=outrigger.dev if the images are loaded on each node" .name) -}}
{{- end -}}
{{- default "outrigger.dev" $registry -}}
{{- end -}}

{{- /* A registry, or the first part of an image's name, without slashes at its end. Argument: (dict
"value" … "in" the path of the value). */ -}}
{{- define "outrigger.noScheme" -}}
{{- $value := default "" .value | toString -}}
{{- if contains "://" $value -}}
{{- fail (printf "%s: %q has a scheme, and names of images have none; set it to %s" .in $value (regexReplaceAll "^.*://|/+$" $value "")) -}}
{{- end -}}
{{- regexReplaceAll "/+$" $value "" -}}
{{- end -}}

{{- /* Rejects an image that NVIDIA has built, because it does not have the programs of the chart. A
mirror of our images keeps our tags. Argument: (dict "repository" … "tag" the value "in" and
"version" the paths of these values "keys" the values to remove). */ -}}
{{- define "outrigger.checkImage" -}}
{{- $tag := default "" .tag | toString -}}
{{- $ours := regexMatch `^(sha256:[0-9a-f]{64}|2[0-9]\.[0-9]{1,2}\.[0-9]+.*)$` $tag -}}
{{- if and $tag (not (regexMatch `^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$` $tag)) -}}
{{- fail (printf "%s: %q is not a tag of an image; set it to a tag such as 26.11.0-debian12, or to a digest sha256:…" .version $tag) -}}
{{- end -}}
{{- $theirs := regexMatch `^((nvcr|docker|ghcr)\.io/)?nvidia/|(^|/)(k8s-device-plugin|gpu-feature-discovery|k8s-mig-manager|k8s-driver-manager|k8s-dra-driver-gpu|gpu-operator|gpu-operator-validator)$` .repository -}}
{{- if and $theirs (or (not $ours) (hasPrefix "nvcr.io/nvidia/" .repository)) -}}
{{- fail (printf "%s: %q is an image of NVIDIA, and this chart runs another program; remove %s from your values, or set them to those of your copy of this chart's image" .in .repository .keys) -}}
{{- end -}}
{{- if regexMatch `^(v[0-9]+|0)\.[0-9]+\.[0-9]+|^[0-9]\.[0-9]+\.[0-9]+-[0-9]\.[0-9]+\.[0-9]+` $tag -}}
{{- fail (printf "%s: %q is a version of NVIDIA's images; remove %s from your values" .version $tag .version) -}}
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
