{{- define "throwaway.objects" -}}
{{- include "outrigger.parts" (dict "root" . "parts" (list "throwaway.daemonset" "throwaway.networkpolicy" "throwaway.serviceaccount")) -}}
{{- end -}}
