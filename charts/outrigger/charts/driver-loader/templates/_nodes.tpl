{{- /* "true" if the tag of the driver's image depends on the node: version has no distribution, or usePrecompiled adds
the kernel. Then each kind of node has its own DaemonSet. */ -}}
{{- define "driver-loader.perNode" -}}
{{- if or .Values.usePrecompiled (regexMatch `^[0-9]+([.][0-9]+)*$` (toString .Values.version)) }}true{{ end -}}
{{- end -}}

{{- /* Rejects versions whose tag cannot be made. .Release.Nodes has the kinds of nodes. Only the orchestrator knows
them. */ -}}
{{- define "driver-loader.checkNodes" -}}
{{- $version := toString (default "" .Values.version) -}}
{{- $example := .Values.usePrecompiled | ternary "580-6.8.0-60-generic-ubuntu22.04" (printf "%s-ubuntu22.04" $version) -}}
{{- if and .Values.usePrecompiled (not (regexMatch `^[0-9]+([.][0-9]+)*$` $version)) -}}
{{- fail (printf "usePrecompiled: the tag is version, the kernel and the distribution of each node, and version is %q; set version to the branch of the driver, such as 580, or remove usePrecompiled: modules in the image are used anyway" $version) -}}
{{- end -}}
{{- if and (include "driver-loader.perNode" .) (not (hasKey .Release "Nodes")) -}}
{{- fail (printf "%s: only the controller of the orchestrator can add the %sdistribution of each node to the tag; use the chart outrigger with orchestrator.enabled, or set version to the whole tag, such as %s%s"
  (.Values.usePrecompiled | ternary "usePrecompiled" "version") (.Values.usePrecompiled | ternary "kernel and the " "") $example (.Values.usePrecompiled | ternary ", and remove usePrecompiled" "")) -}}
{{- end -}}
{{- end -}}

{{- /* A kind of node, as YAML: the part of the tag after the version, the labels that select its nodes, and the part of
the name of its DaemonSet. Empty if a label is missing. Argument: (dict "root" $ "node" an item of .Release.Nodes).
The item {any: true} stands for all kinds: Helm renders the rights of the orchestrator with it. */ -}}
{{- define "driver-loader.kind" -}}
{{- $node := .node -}}
{{- if $node.any -}}
{{- toYaml (dict "tag" "any" "labels" dict "name" "*") -}}
{{- else -}}
{{- $nfd := "feature.node.kubernetes.io/" -}}
{{- /* The tags of NVIDIA's images have only the major version of these distributions. */ -}}
{{- $of := has $node.id (list "rhel" "rocky" "ol") | ternary "major" "version" -}}
{{- $tag := printf "%s%s" $node.id (get $node $of) -}}
{{- $labels := dict (printf "%ssystem-os_release.ID" $nfd) $node.id
  (printf "%ssystem-os_release.VERSION_ID%s" $nfd (eq $of "major" | ternary ".major" "")) (get $node $of) -}}
{{- if .root.Values.usePrecompiled -}}
{{- $tag = printf "%s-%s" $node.kernel $tag -}}
{{- $_ := set $labels (printf "%skernel-version.full" $nfd) $node.kernel -}}
{{- end -}}
{{- if not (has "" (values $labels)) -}}
{{- toYaml (dict "tag" $tag "labels" $labels "name" (regexReplaceAll `[^a-z0-9]+` (lower $tag) "-")) -}}
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
{{- $_ := set $values "version" (printf "%s-%s" (toString .root.Values.version) .kind.tag) -}}
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
