{{- define "mig-manager.configmap" -}}
{{- $config := default dict .Values.config -}}
{{- if $config.create -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $config.name }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "outrigger.labels" . | nindent 4 }}
data:
  {{- toYaml $config.data | nindent 2 }}
{{- end -}}
{{- end -}}
