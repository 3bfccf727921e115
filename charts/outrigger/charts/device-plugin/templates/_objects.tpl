{{- define "device-plugin.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "device-plugin.configmap"
  "device-plugin.daemonset"
  "device-plugin.mps-daemonset"
  "device-plugin.networkpolicy"
  "device-plugin.rbac"
  "device-plugin.service"
  "device-plugin.serviceaccount"
  "device-plugin.vectoradd")) -}}
{{- end -}}
