{{- /* SYS_ROOT of outrigger.env is the folder of the volume sys. */ -}}
{{- define "gpu-sim.env" -}}
{{- if .Values.rbac.create }}
# When this DaemonSet leaves the node, the agent removes the simulated GPUs.
- name: DAEMONSET_NAME
  value: {{ include "outrigger.fullname" . }}
- name: NAMESPACE
  value: {{ include "outrigger.namespace" . }}
{{- end }}
- name: REPORT_EVENTS
  value: "true"
- name: PROC_ROOT
  value: /host/proc
{{- if not .Values.nri.enabled }}
- name: NRI_SOCKET
  value: ""
{{- end }}
{{- with .Values.pools }}
- name: POOLS
  value: {{ include "gpu-sim.pools" $ | quote }}
{{- end }}
{{- with .Values.models }}
- name: MODELS
  value: {{ toJson . | quote }}
{{- end }}
{{- end -}}

{{- /* The pools as JSON, without keys that have no value. */ -}}
{{- define "gpu-sim.pools" -}}
{{- $pools := list -}}
{{- range .Values.pools -}}
{{- $pool := dict -}}
{{- range $key, $value := . }}{{ if $value }}{{ $_ := set $pool $key $value }}{{ end }}{{ end -}}
{{- $pools = append $pools $pool -}}
{{- end -}}
{{- toJson $pools -}}
{{- end -}}
