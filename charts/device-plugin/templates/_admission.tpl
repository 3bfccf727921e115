{{- /* The policies that restrict the rights of the account. */ -}}
{{- define "device-plugin.admission" -}}
{{- if and .Values.devicePlugin.enabled (include "outrigger.eventPolicies" .) -}}
{{ include "outrigger.eventPolicy" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "agent" "device-plugin") }}
{{- end -}}
{{- end -}}

{{- /* "true" if the agent removes its CDI specs when its DaemonSet is deleted: only if it uses the
API server for another reason. */ -}}
{{- define "device-plugin.cleansUp" -}}
{{- if and .Values.rbac.create .Values.devicePlugin.enabled (or .Values.events.enabled (include "outrigger.configMapName" .)) }}true{{ end -}}
{{- end -}}

{{- /* The RBAC objects of the account. */ -}}
{{- define "device-plugin.bindings" -}}
{{- if .Values.rbac.create -}}
{{- if include "outrigger.configMapName" . -}}
{{ include "outrigger.roleBinding" (dict "root" . "kind" "ClusterRole" "name" (include "outrigger.rbacName" .) "labels" (include "outrigger.labels" .)
  "account" (include "outrigger.serviceAccountName" .)) }}
{{- end }}
{{- if and .Values.events.enabled .Values.devicePlugin.enabled }}
---
{{ include "outrigger.eventBinding" . }}
{{- end }}
{{- if include "device-plugin.cleansUp" . }}
---
{{ include "outrigger.roleBinding" (dict "root" . "kind" "Role" "name" (include "outrigger.fullname" .)
  "namespace" (include "outrigger.namespace" .) "labels" (include "outrigger.labels" .) "account" (include "outrigger.serviceAccountName" .)) }}
{{- end }}
{{- end -}}
{{- end -}}
