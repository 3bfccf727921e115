{{- define "driver-loader.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "driver-loader.daemonsets"
  "driver-loader.networkpolicy"
  "driver-loader.rbac"
  "driver-loader.service"
  "driver-loader.serviceaccount"
  "driver-loader.upgrades")) -}}
{{- end -}}
