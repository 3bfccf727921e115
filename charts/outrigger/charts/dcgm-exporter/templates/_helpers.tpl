{{- /* The name of the Service, the monitors and the dashboards. It is the name in NVIDIA's GPU
Operator, and the same for all pools of nodes. */ -}}
{{- define "dcgm-exporter.sharedName" -}}
{{- .Values.fullnameOverride | default "nvidia-dcgm-exporter" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* The label that the Service and Prometheus use to select the pods, as in NVIDIA's GPU
Operator. Its value becomes the label job of the metrics. */ -}}
{{- define "dcgm-exporter.app" -}}
app: nvidia-dcgm-exporter
{{- end -}}

{{- define "dcgm-exporter.labels" -}}
{{ include "outrigger.labels" . }}
{{ include "dcgm-exporter.app" . }}
{{- end -}}

{{- /* The labels of an object that Prometheus or Grafana selects. Argument: (dict "root" $ "more"
the labels in the values). */ -}}
{{- define "dcgm-exporter.labelsWith" -}}
{{- mergeOverwrite (deepCopy (default dict .more)) (include "dcgm-exporter.labels" .root | fromYaml) | toYaml -}}
{{- end -}}

{{- /* "true" if metrics get the labels of pods. */ -}}
{{- define "dcgm-exporter.podLabels" -}}
{{- if or .Values.enablePodLabels (default dict .Values.podMetrics).enablePodLabels }}true{{ end -}}
{{- end -}}

{{- /* "true" if the agent reads pods from the API server. It reads the GPUs of pods from the
kubelet. */ -}}
{{- define "dcgm-exporter.readsPods" -}}
{{- if or (include "dcgm-exporter.podLabels" .) .Values.enablePodUID }}true{{ end -}}
{{- end -}}

{{- define "dcgm-exporter.podResources" -}}
{{ include "outrigger.kubeletRootDir" . }}/pod-resources
{{- end -}}

{{- /* The root context for the templates of the driver. They read the driver root from config, the
config of the device plugin. In this chart, config is a list of metrics. */ -}}
{{- define "dcgm-exporter.driver" -}}
{{- $root := dict "Chart" .root.Chart "Release" .root.Release "Capabilities" .root.Capabilities "Values" (omit .root.Values "config") -}}
{{- include .template $root -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "dcgm-exporter.check" -}}
{{- include "dcgm-exporter.driver" (dict "root" . "template" "outrigger.checkDevRoot") -}}
{{- range default list .Values.podLabelAllowlistRegex -}}
{{- if contains "," . -}}
{{- include "outrigger.problem" (dict "root" $ "path" "podLabelAllowlistRegex" "reason" (printf "%q has a comma, which separates expressions in the agent's variable" .)
  "instead" "write it as two expressions") -}}
{{- end -}}
{{- end -}}
{{- if and .Values.podLabelAllowlistRegex (empty (include "dcgm-exporter.podLabels" .)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "podLabelAllowlistRegex" "reason" "it has no effect without enablePodLabels"
  "instead" "set enablePodLabels to true, or remove it" "remove" (list "podLabelAllowlistRegex")) -}}
{{- end -}}
{{- include "dcgm-exporter.checkCounters" . -}}
{{- if or .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- with include "dcgm-exporter.unreachable" . | splitList "; " -}}
{{- if gt (len .) 1 -}}
{{- $path := printf "%s.enabled" ($.Values.serviceMonitor.enabled | ternary "serviceMonitor" "podMonitor") -}}
{{- include "outrigger.problem" (dict "root" $ "path" $path "reason" (printf "Prometheus cannot read the port: %s" (first .))
  "instead" (printf "%s, or disable it" (last .)) "set" (dict $path false)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (eq "false" (toString .Values.service.enabled)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "serviceMonitor.enabled" "reason" "it selects the Service, and service.enabled is false"
  "instead" "use podMonitor.enabled, or enable the Service" "set" (dict "service.enabled" true)) -}}
{{- end -}}
{{- end -}}

{{- /* The reason why clients cannot reach the port, with the fix. Empty if they can. */ -}}
{{- define "dcgm-exporter.unreachable" -}}
{{- if not .Values.metrics.port -}}
metrics.port is 0; set a port
{{- else if include "outrigger.localhost" . -}}
metrics.localhost opens it only inside the pod; set metrics.localhost to false
{{- end -}}
{{- end -}}
