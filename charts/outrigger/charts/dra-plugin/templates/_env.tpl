{{- define "dra-plugin.env" -}}
{{ include "outrigger.driverEnv" . }}
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: KUBELET_PLUGINS_DIR
  value: {{ include "dra-plugin.kubeletDir" . }}/plugins
- name: KUBELET_REGISTRY_DIR
  value: {{ include "dra-plugin.kubeletDir" . }}/plugins_registry
{{- end -}}

{{- define "dra-plugin.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "NVIDIA_DEV_ROOT" (include "outrigger.devRoot" .))
  (list "NVIDIA_CDI_HOOK_PATH" .Values.cdi.nvidiaHookPath)
  (list "TOOLKIT_INSTALL_DIR" (include "outrigger.setting" (dict "root" . "name" "toolkit.installDir")))
  (list "INCLUDE_DEVICES" .Values.devices.include)
  (list "EXCLUDE_DEVICES" .Values.devices.exclude)) -}}
{{- end -}}
