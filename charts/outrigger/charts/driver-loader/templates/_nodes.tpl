{{- /* The paths of the values that need an image for each kind of node, as a YAML list: versions without a distribution,
and usePrecompiled, which adds the kernel. */ -}}
{{- define "driver-loader.byNode" -}}
{{- $paths := list -}}
{{- if .Values.usePrecompiled -}}
{{- $paths = append $paths "usePrecompiled" -}}
{{- else if include "driver-loader.isBare" .Values.version -}}
{{- $paths = append $paths "version" -}}
{{- end -}}
{{- range $at := list "gds" "gdrcopy" -}}
{{- $values := index $.Values $at -}}
{{- if and $values.enabled (include "driver-loader.isBare" $values.version) }}{{ $paths = append $paths (printf "%s.version" $at) }}{{ end -}}
{{- end -}}
{{- toYaml $paths -}}
{{- end -}}

{{- /* "true" if a version has no distribution. */ -}}
{{- define "driver-loader.isBare" -}}
{{- if regexMatch `^v?[0-9]+([.][0-9]+)*$` (toString .) }}true{{ end -}}
{{- end -}}

{{- /* "true" if each kind of node has its own DaemonSet. */ -}}
{{- define "driver-loader.perNode" -}}
{{- if include "driver-loader.byNode" . | fromYamlArray }}true{{ end -}}
{{- end -}}

{{- /* Rejects versions whose tag cannot be made. .Release.Nodes has the kinds of nodes. Only the orchestrator knows
them. */ -}}
{{- define "driver-loader.checkNodes" -}}
{{- $version := toString (default "" .Values.version) -}}
{{- if and .Values.usePrecompiled (not (include "driver-loader.isBare" $version)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "usePrecompiled" "reason" (printf "the tag is version, the kernel and the distribution of each node, and version is %q" $version)
  "instead" "set version to the branch of the driver, such as 580, or remove usePrecompiled: modules in the image are used anyway" "remove" (list "usePrecompiled")) -}}
{{- end -}}
{{- if not (hasKey .Release "Nodes") -}}
{{- range $path := include "driver-loader.byNode" . | fromYamlArray -}}
{{- if eq $path "usePrecompiled" -}}
{{- include "outrigger.problem" (dict "root" $ "path" $path "reason" "only the controller of the orchestrator can add the kernel and the distribution of each node to the tag"
  "instead" "use the chart outrigger with orchestrator.enabled, or set version to the whole tag, such as 580-6.8.0-60-generic-ubuntu22.04, and remove usePrecompiled") -}}
{{- else -}}
{{- $bare := $.Values -}}
{{- range splitList "." $path }}{{ $bare = get $bare . }}{{ end -}}
{{- $whole := printf "%s-ubuntu22.04" (toString $bare) -}}
{{- include "outrigger.problem" (dict "root" $ "path" $path "reason" "only the controller of the orchestrator can add the distribution of each node to the tag"
  "instead" (printf "use the chart outrigger with orchestrator.enabled, or set %s%s to the whole tag, such as %s" (include "outrigger.path" $) $path $whole)
  "set" (dict $path $whole)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A kind of node, as YAML: the part of the driver's tag after the version, the distribution in other tags, the labels
that select its nodes, and the part of the name of its DaemonSet. Empty if a label is missing, or if the values select other
nodes. Argument: (dict "root" $ "node" an item of .Release.Nodes). The item {any: true} stands for all kinds: Helm renders the rights of the orchestrator with it. */ -}}
{{- define "driver-loader.kind" -}}
{{- $node := .node -}}
{{- if $node.any -}}
{{- toYaml (dict "tag" "any" "os" "any" "labels" dict "name" "*") -}}
{{- else -}}
{{- $nfd := "feature.node.kubernetes.io/" -}}
{{- /* The tags of NVIDIA's images have only the major version of these distributions. */ -}}
{{- $of := has $node.id (list "rhel" "rocky" "ol") | ternary "major" "version" -}}
{{- $os := printf "%s%s" $node.id (get $node $of) -}}
{{- $tag := $os -}}
{{- $labels := dict (printf "%ssystem-os_release.ID" $nfd) $node.id
  (printf "%ssystem-os_release.VERSION_ID%s" $nfd (eq $of "major" | ternary ".major" "")) (get $node $of) -}}
{{- if .root.Values.usePrecompiled -}}
{{- $tag = printf "%s-%s" $node.kernel $os -}}
{{- $_ := set $labels (printf "%skernel-version.full" $nfd) $node.kernel -}}
{{- end -}}
{{- $other := false -}}
{{- range $label, $value := default dict .root.Values.nodeSelector }}{{ if ne (toString $value) (get $labels $label | default (toString $value)) }}{{ $other = true }}{{ end }}{{ end -}}
{{- if not (or $other (has "" (values $labels))) -}}
{{- toYaml (dict "tag" $tag "os" $os "labels" $labels "name" (regexReplaceAll `[^a-z0-9]+` (lower $tag) "-")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The DaemonSet of the agent, or one for each kind of node. Their pods have the labels of the pods of one DaemonSet,
and one more. */ -}}
{{- define "driver-loader.daemonsets" -}}
{{- include "driver-loader.check" . -}}
{{- if include "driver-loader.perNode" . -}}
{{- $names := dict -}}
{{- /* For the orchestrator, another kind of node is no change of the values, which would repeat the validations. */ -}}
{{- $any := include "driver-loader.ofKind" (dict "root" $ "kind" (include "driver-loader.kind" (dict "root" $ "node" (dict "any" true)) | fromYaml)) -}}
{{- $annotations := dict "outrigger.dev/revision" (sha256sum $any | trunc 16) -}}
{{- range $node := .Release.Nodes -}}
{{- $kind := include "driver-loader.kind" (dict "root" $ "node" $node) | fromYaml -}}
{{- if and $kind.name (not (hasKey $names $kind.name)) -}}
{{- $_ := set $names $kind.name true -}}
---
{{ include "driver-loader.ofKind" (dict "root" $ "kind" $kind "annotations" $annotations) }}
{{ end -}}
{{- end -}}
{{- else -}}
{{- include "driver-loader.daemonset" . -}}
{{- end -}}
{{- end -}}

{{- /* The DaemonSet of a kind of node. Argument: (dict "root" $ "kind" the kind "annotations" … of the DaemonSet). */ -}}
{{- define "driver-loader.ofKind" -}}
{{- $values := deepCopy .root.Values -}}
{{- if include "driver-loader.isBare" $values.version }}{{ $_ := set $values "version" (printf "%s-%s" (toString $values.version) .kind.tag) }}{{ end -}}
{{- range $at := list "gds" "gdrcopy" -}}
{{- $of := index $values $at -}}
{{- if include "driver-loader.isBare" $of.version }}{{ $_ := set $of "version" (printf "%s-%s" $of.version $.kind.os) }}{{ end -}}
{{- end -}}
{{- $_ := set $values "nodeSelector" (merge (deepCopy .kind.labels) (default dict .root.Values.nodeSelector)) -}}
{{- include "driver-loader.daemonset" (dict "Values" $values "Release" .root.Release "Chart" .root.Chart "Capabilities" .root.Capabilities
  "kind" .kind.name "annotations" .annotations) -}}
{{- end -}}

{{- define "driver-loader.daemonsetName" -}}
{{- include "outrigger.fullname" . }}{{ with .kind }}-{{ . }}{{ end -}}
{{- end -}}

{{- define "driver-loader.kindLabel" -}}
{{- with .kind }}
outrigger.dev/driver-nodes: {{ . | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}
{{- end -}}
