{{- /* The alerts. In their texts, [[ and ]] stand for the braces of Prometheus's templates. */ -}}
{{- define "dcgm-exporter.alerts" -}}
{{- if .Values.prometheusRule.enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ include "dcgm-exporter.sharedName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "dcgm-exporter.labelsWith" (dict "root" . "more" .Values.prometheusRule.additionalLabels) | nindent 4 }}
spec:
  groups:
    {{- include "dcgm-exporter.alertsOfGPUs" . | replace "[[" "{{" | replace "]]" "}}" | nindent 4 }}
    {{- include "dcgm-exporter.alertsOfUse" . | replace "[[" "{{" | replace "]]" "}}" | nindent 4 }}
    {{- if .Values.prometheusRule.agents }}
    {{- include "dcgm-exporter.alertsOfAgents" . | replace "[[" "{{" | replace "]]" "}}" | nindent 4 }}
    {{- include "dcgm-exporter.alertsOfOrchestrator" . | replace "[[" "{{" | replace "]]" "}}" | nindent 4 }}
    {{- end }}
{{- end -}}
{{- end -}}

{{- /* The labels of a GPU. Expressions keep only these labels, because a GPU has several series if
several pods use it or if it has MIG devices, and the pods change. */ -}}
{{- define "dcgm-exporter.byGPU" -}}
by (Hostname, hostname, gpu, UUID, pci_bus_id, modelName)
{{- end -}}

{{- /* A GPU in the text of an alert. */ -}}
{{- define "dcgm-exporter.thisGPU" -}}
GPU [[ $labels.gpu ]] ([[ $labels.UUID ]]) of node [[ or $labels.Hostname $labels.hostname ]]
{{- end -}}

{{- /* XIDs of a class in the last 15 minutes. The second part is for a series that begins with its
first XID. The function increase does not count that XID. */ -}}
{{- define "dcgm-exporter.xids" -}}
{{- $by := "by (Hostname, hostname, gpu, UUID, pci_bus_id, modelName, xid)" -}}
max {{ $by }} (increase(gpu_xid_errors_total{class="{{ . }}"}[15m])) > 0
or (
  max {{ $by }} (gpu_xid_errors_total{class="{{ . }}"}) > 0
  unless max {{ $by }} (gpu_xid_errors_total{class="{{ . }}"} offset 15m)
)
{{- end -}}
