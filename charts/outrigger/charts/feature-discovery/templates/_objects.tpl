{{- define "feature-discovery.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "feature-discovery.configmap"
  "feature-discovery.daemonset"
  "feature-discovery.networkpolicy"
  "feature-discovery.presence-daemonset"
  "feature-discovery.rbac"
  "feature-discovery.service"
  "feature-discovery.serviceaccount")) -}}
{{- end -}}
