{{- define "dra-plugin.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list
  "dra-plugin.daemonset"
  "dra-plugin.deviceclasses"
  "dra-plugin.networkpolicy"
  "dra-plugin.rbac"
  "dra-plugin.service"
  "dra-plugin.serviceaccount")) -}}
{{- end -}}
