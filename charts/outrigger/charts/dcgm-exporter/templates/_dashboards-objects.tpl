{{- /* The dashboards, which testdata/dcgm-exporter/dashboards.yaml describes, for the sidecar of Grafana's chart. */ -}}
{{- define "dcgm-exporter.dashboards" -}}
{{- if .Values.dashboards.enabled -}}
{{- range $name := include "dcgm-exporter.dashboardNames" . | fromYamlArray }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ printf "%s-dashboard-%s" (include "dcgm-exporter.sharedName" $ | trunc 45 | trimSuffix "-") $name }}
  namespace: {{ include "outrigger.namespace" $ }}
  labels:
    {{- include "dcgm-exporter.labelsWith" (dict "root" $ "more" $.Values.dashboards.labels) | nindent 4 }}
  {{- with $.Values.dashboards.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  nvidia-gpus-{{ $name }}.json: |-
    {{- include "dcgm-exporter.asLabelled" (dict "root" $ "text" (include (printf "dcgm-exporter.dashboard.%s" $name) $)) | nindent 4 }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* The text of a dashboard, with the labels of the metrics. Argument: (dict "root" $ "text" …).
*/ -}}
{{- define "dcgm-exporter.asLabelled" -}}
{{- $text := .text -}}
{{- $values := .root.Values -}}
{{- if eq "hostname" (default "" $values.hostnameLabel) }}{{ $text = replace "Hostname" "hostname" $text }}{{ end -}}
{{- range list $values.serviceMonitor $values.podMonitor -}}
{{- if and .enabled .honorLabels }}{{ $text = replace "exported_" "" $text }}{{ end -}}
{{- end -}}
{{- $text -}}
{{- end -}}
