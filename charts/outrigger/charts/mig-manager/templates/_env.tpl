{{- /* The names of the variables are those of NVIDIA's MIG manager, where it has them. */ -}}
{{- define "mig-manager.env" -}}
{{ include "mig-manager.driver" (dict "root" . "template" "outrigger.driverEnv") }}
- name: STATE_DIR
  value: {{ .Values.stateDir | quote }}
{{- if .Values.rbac.create }}
# When this DaemonSet is deleted, the agent removes what it has published.
- name: DAEMONSET_NAME
  value: {{ include "outrigger.fullname" . }}
{{- end }}
{{- if or .Values.rbac.create (default dict .Values.config).publish }}
- name: NAMESPACE
  value: {{ include "outrigger.namespace" . }}
{{- end }}
- name: REPORT_EVENTS
  value: "true"
- name: GPU_PODS
  value: {{ .Values.gpuPods }}
- name: CORDON
  value: {{ .Values.cordon | quote }}
- name: POD_RESOURCES_KUBELET_SOCKET
  value: {{ include "mig-manager.podResources" . }}/kubelet.sock
{{- if (default dict .Values.config).name }}
- name: CONFIG_FILE
  value: /mig-parted-config/config.yaml
{{- end }}
{{- if (default dict .Values.config).publish }}
# The ConfigMap with the generated configs belongs to this pod.
- name: PUBLISH_CONFIGS
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}
{{- if (default dict .Values.gpuClientsConfig).name }}
- name: GPU_CLIENTS_FILE
  value: /gpu-clients/clients.yaml
- name: WITH_SHUTDOWN_HOST_GPU_CLIENTS
  value: "true"
{{- end }}
{{- end -}}

{{- define "mig-manager.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "NVIDIA_DEV_ROOT" (include "mig-manager.driver" (dict "root" . "template" "outrigger.devRoot")))
  (list "DEFAULT_CONFIG" (default dict .Values.config).default)
  (list "WITH_REBOOT" (.Values.reboot | ternary "true" ""))) -}}
{{- end -}}
