{{- /* The templates in the folder agents render the agents' charts, with the values that all agents
share. The charts themselves render no objects here. See _install.tpl in the library chart. */ -}}
{{- define "outrigger.parentRenders" -}}true{{- end -}}
{{- define "outrigger.parentDefaults" -}}{{ include "outrigger.defaults" . }}{{- end -}}

{{- /* The objects of an agent that Helm installs without the orchestrator. Argument: (dict "root" $ "name" the
name of its chart "key" the key of its values). */ -}}
{{- define "outrigger.agent" -}}
{{- include "outrigger.checked" .root -}}
{{- get .root.Release.rendered .name -}}
{{- end -}}

{{- /* The key whose values enable an agent: the key of the agent, or draDriver. Empty if the values disable it.
driver.enabled is off without a value in values.yaml, so that the notes can say whether a user has set it.
Argument: (dict "root" $ "key" …). */ -}}
{{- define "outrigger.enabled" -}}
{{- if ne "false" (get .root.Values .key | default dict | dig "enabled" (ne .key "driver") | toString) }}{{ .key }}
{{- else if eq .key "draPlugin" }}{{ with .root.Values.draDriver }}{{ if .enabled }}draDriver{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{- /* The path of the values that set the image of an agent, for messages. Argument: the same dict. */ -}}
{{- define "outrigger.imagePath" -}}
{{- $own := get .root.Values .key | default dict -}}
{{- $dra := default dict .root.Values.draDriver -}}
{{- $validator := get (default dict .root.Values.operator) "validator" | default dict -}}
{{- if and (eq .key "draPlugin") (or $dra.repository $dra.image $dra.version) }}draDriver.
{{- else if and (eq .key "validator") (or $validator.repository $validator.image $validator.version) (not (or $own.repository $own.image $own.version)) }}operator.validator.
{{- else }}{{ .key }}.{{ end -}}
{{- end -}}

{{- /* The objects of an agent. Empty if the values disable it, unless "idle" is set: then they have the agent's
defaults. Argument: the same dict. */ -}}
{{- define "outrigger.agentObjects" -}}
{{- $sub := get .root.Subcharts .key -}}
{{- $enabled := include "outrigger.enabled" . -}}
{{- $version := $sub.Capabilities.KubeVersion.Version -}}
{{- $served := semverCompare $sub.Chart.KubeVersion $version -}}
{{- if and $enabled (not $served) -}}
{{- $path := printf "%s%s.enabled" (default "" .root.At) $enabled -}}
{{- include "outrigger.problem" (dict "root" .root "full" true "path" $path "reason" (printf "it needs Kubernetes %s, and the cluster has %s" $sub.Chart.KubeVersion $version)
  "instead" "set it to false" "set" (dict $path false)) -}}
{{- end -}}
{{- if and $served (or $enabled .idle) -}}
{{- $values := deepCopy $sub.Values -}}
{{- $_ := set $values "global" (deepCopy .root.Values.global) -}}
{{- include "outrigger.withDefaults" (dict "root" (dict "Values" $values "Chart" $sub.Chart) "name" .name) -}}
{{- if not $enabled }}{{ $values = include "outrigger.idleValues" (dict "values" $values "name" .name "version" $version) | fromYaml }}{{ end -}}
{{- include "outrigger.share" (dict "root" .root "into" $values.global) -}}
{{- if eq .name "validator" -}}
{{- $theirs := get (default dict .root.Values.operator) "validator" | default dict | deepCopy -}}
{{- if eq "true" (include "outrigger.theirImage" $theirs) }}{{ $theirs = omit $theirs "repository" "image" "version" }}{{ end -}}
{{- $values = mergeOverwrite $theirs $values -}}
{{- end -}}
{{- with (default dict .root.Values.daemonsets).nodeSelector }}{{ if $enabled }}{{ $_ := set $values "nodeSelector" (merge (default dict $values.nodeSelector | deepCopy) .) }}{{ end }}{{ end -}}
{{- if eq .name "driver-loader" }}{{ include "outrigger.optionalModules" (dict "from" .root.Values "into" $values) }}{{ end -}}
{{- if and $enabled (eq .name "dra-plugin") }}{{ $values = mergeOverwrite $values (include "outrigger.draDriver" .root | fromYaml) }}{{ end -}}
{{- if or (not $enabled) (and (eq .name "device-plugin") (eq "devicePlugin.config" (toString $values.global.config.in))) }}{{ $_ := set $values "config" dict }}{{ end -}}
{{- if not $enabled }}{{ $_ := set $values.global "config" dict }}{{ end -}}
{{- $at := default "" .root.At -}}
{{- $annotations := dict "outrigger.dev/path" (printf "%s%s." $at .key) "outrigger.dev/image-path" (printf "%s%s" $at (include "outrigger.imagePath" .)) "outrigger.dev/parent-path" $at -}}
{{- range $key, $text := $sub.Chart.Annotations }}{{ $_ := set $annotations $key $text }}{{ end -}}
{{- $chart := dict "Name" .name "Version" $sub.Chart.Version "AppVersion" $sub.Chart.AppVersion "Annotations" $annotations -}}
{{- /* The orchestrator knows the kinds of nodes, and Helm does not. */ -}}
{{- $release := $sub.Release -}}
{{- if .root.Values.orchestrator.enabled }}{{ $release = set (merge (dict "Nodes" (list (dict "any" true))) $release) "problems" $release.problems }}{{ end -}}
{{- include (printf "%s.objects" .name) (dict "Chart" $chart "Release" $release "Capabilities" $sub.Capabilities "Values" $values) -}}
{{- end -}}
{{- end -}}

{{- /* Sets the values of the driver loader that have separate keys in NVIDIA's chart, if they are enabled there only.
Argument: (dict "from" the values of this chart "into" the values of the driver loader). */ -}}
{{- define "outrigger.optionalModules" -}}
{{- range $key := list "gds" "gdrcopy" -}}
{{- $theirs := pick (get $.from $key | default dict) "enabled" "repository" "image" "version" -}}
{{- if and $theirs.enabled (not (get $.into $key).enabled) -}}
{{- range $name, $value := $theirs }}{{ if $value }}{{ $_ := set (get $.into $key) $name $value }}{{ end }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The values of the DRA plugin that draDriver sets, under the keys of NVIDIA's chart. They take precedence over
draPlugin, whose values include its defaults. */ -}}
{{- define "outrigger.draDriver" -}}
{{- $theirs := .Values.draDriver | default dict | deepCopy -}}
{{- include "outrigger.withoutNulls" $theirs -}}
{{- if eq "true" (include "outrigger.theirImage" $theirs) }}{{ $theirs = omit $theirs "repository" "image" "version" }}{{ end -}}
{{- $values := merge (pick $theirs "repository" "image" "version" "imagePullPolicy" "imagePullSecrets")
  (pick (dig "gpus" "kubeletPlugin" dict $theirs) "env" "resources" "nodeSelector" "affinity" "tolerations" "priorityClassName") -}}
{{- range $key, $value := $values }}{{ if empty $value }}{{ $_ := unset $values $key }}{{ end }}{{ end -}}
{{- toYaml $values -}}
{{- end -}}

{{- /* The values of a disabled agent, which render its rights under the same names: its defaults, and the values
that name objects. Argument: (dict "values" … "name" … "version" …). */ -}}
{{- define "outrigger.idleValues" -}}
{{- $values := pick .values "global" "nameOverride" "fullnameOverride" "namespaceOverride" "serviceAccount" "rbac" "admissionPolicy" -}}
{{- include "outrigger.fill" (dict "into" $values "defaults" (include (printf "%s.defaults" .name) . | fromYaml)) -}}
{{- $_ := set $values.global "registry" "outrigger.dev" -}}
{{- if and (hasKey $values "admissionPolicy") (semverCompare "<1.30.0-0" .version) }}{{ $_ := set $values.admissionPolicy "create" false }}{{ end -}}
{{- toYaml $values -}}
{{- end -}}

{{- /* Adds the top-level values of NVIDIA's chart to global. The agents read them under the same
paths. Argument: (dict "root" $ "into" global). */ -}}
{{- define "outrigger.share" -}}
{{- $values := .root.Values -}}
{{- range list "mig" "cdi" "daemonsets" "hostPaths" "operator" }}{{ $_ := set $.into . (get $values . | default dict) }}{{ end -}}
{{- $_ := set .into "toolkit" (dict "installDir" (default dict $values.toolkit).installDir) -}}
{{- $config := include "outrigger.sharedConfig" .root | fromYaml -}}
{{- $_ := set .into "config" $config -}}
{{- $_ := set .into "readyChain" (include "outrigger.links" .root | splitList ",") -}}
{{- if include "outrigger.enabled" (dict "root" .root "key" "sim") -}}
{{- $_ := set .into "nvidiaDriverRoot" (.into.nvidiaDriverRoot | default "/run/nvidia/driver") -}}
{{- else if not (or .into.nvidiaDriverRoot (include "outrigger.ownDriver" .root | empty)) -}}
{{- $_ := set .into "nvidiaDriverRoot" (dig "driverInstallDir" "" (default dict $values.hostPaths) | default "/run/nvidia/driver") -}}
{{- end -}}
{{- $strategy := default (default dict $values.mig).strategy $values.global.migStrategy -}}
{{- if not (or $strategy $config.name $config.map) }}{{ $strategy = "single" }}{{ end -}}
{{- $_ := set .into "migStrategy" $strategy -}}
{{- end -}}

{{- /* "true" if the driver loader installs the driver. */ -}}
{{- define "outrigger.ownDriver" -}}
{{- if include "outrigger.enabled" (dict "root" . "key" "driver") }}{{ with .Subcharts.driver }}{{ if or .Values.image .Values.version .Values.payload .Values.driverVersion }}true{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{- /* The config that all agents share: the config of the device plugin, else global.config. */ -}}
{{- define "outrigger.sharedConfig" -}}
{{- $own := include "outrigger.config" (dict "Values" (dict "config" (default dict .Values.devicePlugin).config) "Release" .Release
  "Chart" (dict "Annotations" (dict "outrigger.dev/path" (printf "%sdevicePlugin." (default "" .At))))) | fromYaml -}}
{{- if or $own.name $own.map }}{{ set $own "in" "devicePlugin.config" | toYaml }}{{ else }}{{ toYaml .Values.global.config }}{{ end -}}
{{- end -}}

{{- /* The installed links of the condition GPUReady: driver, the links in the annotations
outrigger.dev/ready-link of the charts, and cuda if the orchestrator validates every node. */ -}}
{{- define "outrigger.links" -}}
{{- $links := list "driver" -}}
{{- range $link := list "mig" "toolkit" "plugin" -}}
{{- range $key, $sub := $.Subcharts -}}
{{- if and (include "outrigger.enabled" (dict "root" $ "key" $key)) (eq $link (index $sub.Chart.Annotations "outrigger.dev/ready-link" | toString)) }}{{ $links = append $links $link }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if include "outrigger.enabled" (dict "root" . "key" "validator") -}}
{{- $driver := default dict .Subcharts.validator.Values.driver -}}
{{- if and (eq $.Release.Service "outrigger") $driver.enabled $driver.report (eq "all" (toString $driver.nodes)) }}{{ $links = append $links "cuda" }}{{ end -}}
{{- end -}}
{{- join "," $links -}}
{{- end -}}

{{- /* The ConfigMap with the configs of all agents. Empty without configs. */ -}}
{{- define "outrigger.configMapOfAll" -}}
{{- $config := include "outrigger.sharedConfig" . | fromYaml -}}
{{- with $config.map -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $config.create | default (include "outrigger.parentConfigMapName" $) }}
  namespace: {{ include "outrigger.namespace" $ }}
  labels:
    {{- include "outrigger.labels" $ | nindent 4 }}
data:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
