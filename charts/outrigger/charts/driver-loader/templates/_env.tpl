{{- define "driver-loader.env" -}}
- name: HOST_ROOT
  value: /host
- name: PROC_ROOT
  value: /host/proc
- name: DRIVER_INSTALL_DIR
  value: {{ include "driver-loader.installDir" . | quote }}
- name: DRIVER_STORE
  value: {{ .Values.store | quote }}
- name: KERNEL_MODULE_TYPE
  value: {{ include "driver-loader.moduleType" . }}
- name: KERNEL_MODULE_CONFIG
  value: {{ include "driver-loader.moduleConfigDir" . }}
- name: GPU_DIRECT_RDMA_ENABLED
  value: {{ .Values.rdma.enabled | quote }}
- name: GDS_ENABLED
  value: {{ .Values.gds.enabled | quote }}
- name: GDRCOPY_ENABLED
  value: {{ .Values.gdrcopy.enabled | quote }}
{{- if .Values.replaceForeignDriver }}
- name: REPLACE_FOREIGN_DRIVER
  value: "true"
{{- end }}
- name: NAMESPACE
  value: {{ include "outrigger.namespace" . }}
{{- if .Values.rbac.create }}
- name: DAEMONSET_NAME
  value: {{ include "driver-loader.daemonsetName" . }}
- name: UPGRADE_POLICY
  value: {{ toJson .Values.upgradePolicy | quote }}
{{- else }}
# Without rights, nodes with work are not upgraded: the agent loads a new driver when no process
# uses the old one.
- name: AUTO_UPGRADE
  value: {{ .Values.upgradePolicy.autoUpgrade | quote }}
{{- end }}
{{- if .Values.signing.secretName }}
- name: MODULE_SIGNING_KEY
  value: /signing/key.pem
- name: MODULE_SIGNING_CERTIFICATE
  value: /signing/cert.pem
{{- end }}
{{- end -}}

{{- define "driver-loader.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "DRIVER_PAYLOAD" (include "driver-loader.image" . | empty | ternary .Values.payload "/"))
  (list "DRIVER_VERSION" .Values.driverVersion)
  (list "MAX_THREADS" .Values.maxThreads)) -}}
{{- end -}}
