{{- define "feature-discovery.networkpolicy" -}}
{{- if .Values.networkPolicy.enabled -}}
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "port" .Values.metrics.port "hostNetwork" (include "feature-discovery.hostNetwork" .)) }}
{{- if .Values.presence.enabled }}
---
{{ include "outrigger.networkPolicy" (dict "root" $ "name" (include "feature-discovery.presenceName" .) "labels" (include "feature-discovery.presenceLabels" .)
  "selector" (include "outrigger.partSelectorLabels" (dict "root" $ "part" "feature-discovery-presence")) "port" .Values.presence.port "hostNetwork" false) }}
{{- end }}
{{- end }}
{{- end -}}
