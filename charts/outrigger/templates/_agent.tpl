{{- /* The templates in the folder agents render the agents' charts, with the values that all agents
share. The charts themselves render no objects here. See _install.tpl in the library chart. */ -}}
{{- define "outrigger.parentRenders" -}}true{{- end -}}
{{- define "outrigger.parentDefaults" -}}{{ include "outrigger.defaults" . }}{{- end -}}

{{- /* The objects of an agent that Helm installs. With the orchestrator there are none, but the
values are still checked. Argument: (dict "root" $ "name" the name of its chart "key" the key of its
values). */ -}}
{{- define "outrigger.agent" -}}
{{- include "outrigger.withDefaults" (dict "root" .root "name" "outrigger") -}}
{{- $objects := include "outrigger.agentObjects" . -}}
{{- if not .root.Values.orchestrator.enabled }}{{ $objects }}{{ end -}}
{{- end -}}

{{- /* The objects of an agent. Empty if the values disable it. Argument: the same dict. */ -}}
{{- define "outrigger.agentObjects" -}}
{{- with get .root.Subcharts .key -}}
{{- if not (semverCompare .Chart.KubeVersion .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "%s.enabled: it needs Kubernetes %s, and the cluster has %s; set it to false" $.key .Chart.KubeVersion .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- $values := deepCopy .Values -}}
{{- $_ := set $values "global" (deepCopy $.root.Values.global) -}}
{{- include "outrigger.withDefaults" (dict "root" (dict "Values" $values "Chart" .Chart) "name" $.name) -}}
{{- include "outrigger.share" (dict "root" $.root "into" $values.global) -}}
{{- if eq $.name "validator" }}{{ $values = mergeOverwrite (get (default dict $.root.Values.operator) "validator" | default dict | deepCopy) $values }}{{ end -}}
{{- if and (eq $.name "device-plugin") (eq "devicePlugin.config" (toString $values.global.config.in)) }}{{ $_ := set $values "config" dict }}{{ end -}}
{{- $chart := dict "Name" $.name "Version" .Chart.Version "AppVersion" .Chart.AppVersion "Annotations" .Chart.Annotations -}}
{{- include (printf "%s.objects" $.name) (dict "Chart" $chart "Release" .Release "Capabilities" .Capabilities "Values" $values) -}}
{{- end -}}
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
{{- if not (or .into.nvidiaDriverRoot (include "outrigger.ownDriver" .root | empty)) -}}
{{- $_ := set .into "nvidiaDriverRoot" (dig "driverInstallDir" "" (default dict $values.hostPaths) | default "/run/nvidia/driver") -}}
{{- end -}}
{{- $strategy := default (default dict $values.mig).strategy $values.global.migStrategy -}}
{{- if not (or $strategy $config.name $config.map) }}{{ $strategy = "single" }}{{ end -}}
{{- $_ := set .into "migStrategy" $strategy -}}
{{- end -}}

{{- /* "true" if the driver loader installs the driver. */ -}}
{{- define "outrigger.ownDriver" -}}
{{- with .Subcharts.driver }}{{ if or .Values.image .Values.version .Values.payload .Values.driverVersion }}true{{ end }}{{ end -}}
{{- end -}}

{{- /* The config that all agents share: the config of the device plugin, else global.config. */ -}}
{{- define "outrigger.sharedConfig" -}}
{{- $own := include "outrigger.config" (dict "Values" (dict "config" (default dict .Values.devicePlugin).config)) | fromYaml -}}
{{- if or $own.name $own.map }}{{ set $own "in" "devicePlugin.config" | toYaml }}{{ else }}{{ toYaml .Values.global.config }}{{ end -}}
{{- end -}}

{{- /* The installed links of the condition GPUReady: driver, the links in the annotations
outrigger.dev/ready-link of the charts, and cuda if the orchestrator validates every node. */ -}}
{{- define "outrigger.links" -}}
{{- $links := list "driver" -}}
{{- range $link := list "mig" "toolkit" "plugin" -}}
{{- range $.Subcharts -}}
{{- if eq $link (index .Chart.Annotations "outrigger.dev/ready-link") }}{{ $links = append $links $link }}{{ end -}}
{{- end -}}
{{- end -}}
{{- with .Subcharts.validator -}}
{{- $driver := default dict .Values.driver -}}
{{- if and (eq $.Release.Service "outrigger") $driver.enabled $driver.report (eq "all" (toString $driver.nodes)) }}{{ $links = append $links "cuda" }}{{ end -}}
{{- end -}}
{{- join "," $links -}}
{{- end -}}
