{{- define "dcgm-exporter.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "dcgm-exporter.alerts"
  "dcgm-exporter.counters"
  "dcgm-exporter.daemonset"
  "dcgm-exporter.dashboards"
  "dcgm-exporter.monitors"
  "dcgm-exporter.networkpolicy"
  "dcgm-exporter.rbac"
  "dcgm-exporter.service"
  "dcgm-exporter.serviceaccount")) -}}
{{- end -}}
