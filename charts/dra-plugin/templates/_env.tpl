{{- /* One variable for each choice that is made; the agent has a default for the others. */ -}}
{{- define "dra-plugin.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: NVIDIA_DRIVER_ROOT
  value: {{ include "dra-plugin.driverRoot" . | quote }}
- name: DRIVER_ROOT_CTR_PATH
  value: {{ include "dra-plugin.driverRootCtrPath" . | quote }}
{{- with .Values.nvidiaDevRoot }}
- name: NVIDIA_DEV_ROOT
  value: {{ . | quote }}
{{- end }}
- name: PROC_ROOT
  value: /host/proc
- name: SYS_ROOT
  value: /host/sys
- name: KUBELET_PLUGINS_DIR
  value: {{ include "dra-plugin.kubeletDir" . }}/plugins
- name: KUBELET_REGISTRY_DIR
  value: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
- name: LISTEN_ADDRESS
  value: {{ if .Values.metrics.port }}":{{ .Values.metrics.port }}"{{ else }}""{{ end }}
- name: LOG_LEVEL
  value: {{ .Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .Values.logFormat }}
{{- with .Values.cdi.nvidiaHookPath }}
- name: NVIDIA_CDI_HOOK_PATH
  value: {{ . | quote }}
{{- end }}
{{- with .Values.devices.include }}
- name: INCLUDE_DEVICES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.devices.exclude }}
- name: EXCLUDE_DEVICES
  value: {{ join "," . | quote }}
{{- end }}
{{- end -}}

{{- /* The user's variables, and those of ours that the user does not set: a name
that is there twice is refused by server-side apply. */ -}}
{{- define "dra-plugin.allEnv" -}}
{{- $taken := list -}}
{{- range .Values.env }}{{ $taken = append $taken .name }}{{ end -}}
{{- $env := list -}}
{{- range include "dra-plugin.env" . | fromYamlArray -}}
{{- if not (has .name $taken) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- concat $env (default list .Values.env) | toYaml -}}
{{- end -}}
