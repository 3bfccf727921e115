{{- define "device-plugin.networkpolicy" -}}
{{- if .Values.networkPolicy.enabled -}}
{{- if .Values.devicePlugin.enabled -}}
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "port" .Values.metrics.port "hostNetwork" (or .Values.devicePlugin.enableHostNetwork .Values.hostNetwork)) }}
{{- end }}
{{- if include "device-plugin.mps" . }}
{{- $part := dict "root" $ "part" "mps-control-daemon" }}
---
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "device-plugin.mpsName" .) "labels" (include "outrigger.partLabels" $part)
  "selector" (include "outrigger.partSelectorLabels" $part) "port" .Values.mps.port "hostNetwork" .Values.mps.enableHostNetwork) }}
{{- end }}
{{- end }}
{{- end -}}
