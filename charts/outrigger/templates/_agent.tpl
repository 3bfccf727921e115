{{- /* The agents' charts render nothing themselves: the templates in the folder agents do, with
the values that all agents share. See _install.tpl in the library chart. */ -}}
{{- define "outrigger.parentRenders" -}}true{{- end -}}

{{- /* What Helm installs of an agent, of (dict "root" $ "name" of its chart "key" of its values). With
the orchestrator this is nothing, but the values are checked nevertheless. */ -}}
{{- define "outrigger.agent" -}}
{{- $objects := include "outrigger.agentObjects" . -}}
{{- if not .root.Values.orchestrator.enabled }}{{ $objects }}{{ end -}}
{{- end -}}

{{- /* The objects of an agent, of the same dict. Empty if the values disable it. */ -}}
{{- define "outrigger.agentObjects" -}}
{{- with get .root.Subcharts .key -}}
{{- if not (semverCompare .Chart.KubeVersion .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "%s.enabled: it needs Kubernetes %s, and the cluster has %s; set it to false" $.key .Chart.KubeVersion .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- $values := deepCopy .Values -}}
{{- $_ := set $values "global" (deepCopy $.root.Values.global) -}}
{{- include "outrigger.share" (dict "root" $.root "into" $values.global) -}}
{{- if eq $.name "validator" }}{{ $values = mergeOverwrite (get (default dict $.root.Values.operator) "validator" | default dict | deepCopy) $values }}{{ end -}}
{{- if and (eq $.name "device-plugin") (eq "devicePlugin.config" (toString $values.global.config.in)) }}{{ $_ := set $values "config" dict }}{{ end -}}
{{- $chart := dict "Name" $.name "Version" .Chart.Version "AppVersion" .Chart.AppVersion "Annotations" .Chart.Annotations -}}
{{- include (printf "%s.objects" $.name) (dict "Chart" $chart "Release" .Release "Capabilities" .Capabilities "Values" $values) -}}
{{- end -}}
{{- end -}}

{{- /* Adds to global, in (dict "root" $ "into" global), what NVIDIA's chart has at its top. The agents
read it under the same path. */ -}}
{{- define "outrigger.share" -}}
{{- $values := .root.Values -}}
{{- range list "mig" "cdi" "daemonsets" "hostPaths" "operator" }}{{ $_ := set $.into . (get $values . | default dict) }}{{ end -}}
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

{{- /* "true" if the driver is one that the driver loader installs. */ -}}
{{- define "outrigger.ownDriver" -}}
{{- with .Subcharts.driver }}{{ if or .Values.image .Values.version .Values.payload .Values.driverVersion }}true{{ end }}{{ end -}}
{{- end -}}

{{- /* The config that all agents share: that of the device plugin, else global.config. */ -}}
{{- define "outrigger.sharedConfig" -}}
{{- $own := include "outrigger.config" (dict "Values" (dict "config" (default dict .Values.devicePlugin).config)) | fromYaml -}}
{{- if or $own.name $own.map }}{{ set $own "in" "devicePlugin.config" | toYaml }}{{ else }}{{ toYaml .Values.global.config }}{{ end -}}
{{- end -}}

{{- /* The links of the condition GPUReady that are installed: driver, those that charts name in
outrigger.dev/ready-link, and cuda if the orchestrator validates every node. */ -}}
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
