{{- /* The monitors for the Prometheus Operator. The label app of the Service or pod becomes the
label job. With honorLabels false, the pod of a GPU is in exported_pod, because Prometheus adds the
labels of the target. */ -}}
{{- define "dcgm-exporter.monitors" -}}
{{- if .Values.serviceMonitor.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "dcgm-exporter.sharedName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "dcgm-exporter.labelsWith" (dict "root" . "more" .Values.serviceMonitor.additionalLabels) | nindent 4 }}
spec:
  {{- include "dcgm-exporter.monitored" . | nindent 2 }}
  endpoints:
    - port: gpu-metrics
      {{- include "outrigger.monitoredEndpoint" (dict "root" . "values" .Values.serviceMonitor) | nindent 6 }}
{{- end }}
{{- if .Values.podMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ include "dcgm-exporter.sharedName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "dcgm-exporter.labelsWith" (dict "root" . "more" .Values.podMonitor.additionalLabels) | nindent 4 }}
spec:
  {{- include "dcgm-exporter.monitored" . | nindent 2 }}
  podMetricsEndpoints:
    - port: metrics
      {{- include "outrigger.monitoredEndpoint" (dict "root" . "values" .Values.podMonitor) | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "dcgm-exporter.monitored" -}}
jobLabel: app
selector:
  matchLabels:
    {{- include "dcgm-exporter.app" . | nindent 4 }}
namespaceSelector:
  matchNames: [{{ include "outrigger.namespace" . }}]
{{- end -}}
