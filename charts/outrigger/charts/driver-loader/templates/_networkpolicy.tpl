{{- define "driver-loader.networkpolicy" -}}
{{- if .Values.networkPolicy.enabled -}}
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork) }}
{{- if .Values.rbac.create }}
---
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "driver-loader.upgradesName" .) "labels" (include "driver-loader.upgradesLabels" .)
  "selector" (include "outrigger.partSelectorLabels" (dict "root" $ "part" "driver-loader-upgrades")) "port" .Values.metrics.port "hostNetwork" false) }}
{{- end }}
{{- end }}
{{- end -}}
