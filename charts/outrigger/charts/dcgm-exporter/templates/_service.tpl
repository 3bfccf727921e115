{{- /* The Service has the name, the label and the port of NVIDIA's GPU Operator. It selects the pods of
all pools. */ -}}
{{- define "dcgm-exporter.service" -}}
{{- $why := include "dcgm-exporter.unreachable" . -}}
{{- if and $why .Values.service.enabled -}}
{{- $parts := splitList "; " $why -}}
{{- include "outrigger.problem" (dict "root" . "path" "service.enabled" "reason" (printf "nobody reaches the port of the Service: %s" (first $parts))
  "instead" (printf "%s, or disable the Service" (last $parts)) "set" (dict "service.enabled" false)) -}}
{{- end -}}
{{- if not (or $why (eq "false" (toString .Values.service.enabled))) -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "dcgm-exporter.sharedName" . }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "dcgm-exporter.labelsWith" (dict "root" . "more" .Values.service.labels) | nindent 4 }}
  {{- with .Values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .Values.service.type | default "ClusterIP" }}
  {{- with .Values.service.internalTrafficPolicy }}
  internalTrafficPolicy: {{ . }}
  {{- end }}
  selector:
    {{- include "dcgm-exporter.app" . | nindent 4 }}
  ports:
    - name: gpu-metrics
      port: {{ .Values.metrics.port }}
      protocol: TCP
      targetPort: metrics
{{- end -}}
{{- end -}}
