{{- /* The list of metrics: customMetrics, as in NVIDIA's chart of DCGM Exporter, or the ConfigMap
of config, as in its GPU Operator. If neither is set, the agent uses the list in the image. */ -}}
{{- define "dcgm-exporter.countersName" -}}
{{- $config := default dict .Values.config -}}
{{- if .Values.customMetrics -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "counters") -}}
{{- else -}}
{{- $config.name -}}
{{- end -}}
{{- end -}}

{{- /* The key with the list, which is also the name of the file. */ -}}
{{- define "dcgm-exporter.countersKey" -}}
{{- if .Values.customMetrics }}metrics{{ else }}{{ (default dict .Values.config).key | default "dcgm-metrics.csv" }}{{ end -}}
{{- end -}}

{{- define "dcgm-exporter.checkCounters" -}}
{{- $config := default dict .Values.config -}}
{{- if and .Values.customMetrics (or $config.name $config.data) -}}
{{- include "outrigger.problem" (dict "root" . "path" "customMetrics" "reason" "config is also set, and both are the list of metrics"
  "remove" (list "customMetrics")) -}}
{{- end -}}
{{- include "outrigger.checkCreate" . -}}
{{- end -}}

{{- define "dcgm-exporter.counters" -}}
{{- $text := .Values.customMetrics | default (default dict .Values.config).data -}}
{{- if $text -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "dcgm-exporter.countersName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "dcgm-exporter.labels" . | nindent 4 }}
data:
  {{- dict (include "dcgm-exporter.countersKey" .) $text | toYaml | nindent 2 }}
{{- end -}}
{{- end -}}
