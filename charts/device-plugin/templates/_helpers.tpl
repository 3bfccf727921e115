{{- define "device-plugin.devicePluginsDir" -}}
{{- printf "%s/device-plugins" (trimSuffix "/" .Values.kubeletRootDir) -}}
{{- end -}}

{{- /* The MPS control daemons run if the values enable them, or if a config file
shares GPUs with MPS. */ -}}
{{- define "device-plugin.mps" -}}
{{- if kindIs "bool" .Values.mps.enabled -}}
{{- if .Values.mps.enabled }}true{{ end -}}
{{- else -}}
{{- $texts := values .Values.config.map -}}
{{- $shared := "" -}}
{{- range $texts -}}
{{- $shared = include "outrigger.configValue" (dict "text" . "path" (list "sharing" "mps")) | default $shared -}}
{{- end -}}
{{- if $shared }}true{{ end -}}
{{- end -}}
{{- end -}}

{{- define "device-plugin.mpsName" -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "mps-control-daemon") -}}
{{- end -}}
