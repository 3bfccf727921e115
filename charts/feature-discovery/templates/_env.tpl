{{- /* The driver, the config and the output of the agent. */ -}}
{{- define "feature-discovery.env" -}}
{{ include "outrigger.driverEnv" . }}
- name: PUBLISH
  value: {{ .Values.publish }}
{{- if eq .Values.publish "nfd-file" }}
- name: GFD_OUTPUT_FILE
  value: {{ .Values.outputFile | quote }}
{{- end }}
# When this DaemonSet is deleted, the agent removes what it has published.
- name: DAEMONSET_NAME
  value: {{ and .Values.rbac.create (include "feature-discovery.usesAPI" . | eq "true") | ternary (include "outrigger.fullname" .) "" | quote }}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- if eq .Values.publish "nodefeature" }}
# The object is owned by the DaemonSet of this pod.
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}
# The content of this file becomes a label, so the author of a config file must
# not choose the file.
- name: GFD_MACHINE_TYPE_FILE
  value: {{ include "feature-discovery.machineTypeFile" . }}
# The kubelet restarts a pod of a DaemonSet that exits, so a config file must not
# set this.
- name: GFD_ONESHOT
  value: "false"
{{- if include "feature-discovery.readyChain" . }}
- name: READY_CHAIN
  value: {{ include "feature-discovery.readyChain" . }}
- name: STARTUP_TAINT
  value: {{ include "outrigger.startupTaint" . | quote }}
{{- end }}
- name: REPORT_EVENTS
  value: {{ .Values.events.enabled | quote }}
{{- with include "outrigger.configEnv" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- /* The value at a path, or else at this path below gfd, as in NVIDIA's chart. Argument: (dict
"root" $ "name" …). */ -}}
{{- define "feature-discovery.orGFD" -}}
{{- include "outrigger.setting" . | default (include "outrigger.setting" (dict "root" .root "name" (printf "gfd.%s" .name))) -}}
{{- end -}}

{{- define "feature-discovery.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "NVIDIA_DEV_ROOT" (include "outrigger.devRoot" .))
  (list "MIG_STRATEGY" (include "outrigger.setting" (dict "root" . "name" "migStrategy")))
  (list "NVIDIA_DRIVER_RESOURCE_CONFIG" (include "outrigger.setting" (dict "root" . "name" "resourceConfig")))
  (list "FAIL_ON_INIT_ERROR" .Values.failOnInitError)
  (list "GFD_NO_TIMESTAMP" (include "feature-discovery.orGFD" (dict "root" . "name" "noTimestamp")))
  (list "GFD_SLEEP_INTERVAL" (include "feature-discovery.orGFD" (dict "root" . "name" "sleepInterval")))
  (list "DEVICE_DISCOVERY_STRATEGY" .Values.deviceDiscoveryStrategy)) -}}
{{- end -}}

{{- /* The variables of the presence part only. */ -}}
{{- define "feature-discovery.presenceEnv" -}}
- name: PRESENCE
  value: "true"
- name: HOST_ROOT
  value: /host
# When this DaemonSet is deleted, the part removes its labels.
- name: DAEMONSET_NAME
  value: {{ .Values.rbac.create | ternary (include "feature-discovery.presenceName" .) "" | quote }}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end -}}
