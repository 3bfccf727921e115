{{- define "container-toolkit.env" -}}
{{ include "outrigger.driverEnv" . }}
- name: HOST_ROOT_MOUNT
  value: /host
- name: TOOLKIT_INSTALL_DIR
  value: {{ include "container-toolkit.installDir" . | quote }}
- name: RUNTIME
  value: {{ include "container-toolkit.engine" . }}
- name: DETECT_RUNTIME
  value: {{ .Values.runtime.engine | empty | quote }}
- name: NVIDIA_RUNTIME_NAME
  value: {{ include "container-toolkit.runtimeName" . }}
- name: NVIDIA_RUNTIME_SET_AS_DEFAULT
  value: {{ .Values.runtime.setAsDefault | quote }}
- name: RUNTIME_ENABLE_CDI
  value: {{ .Values.runtime.enableCDI | quote }}
- name: NO_RUNTIME_CONFIG
  value: {{ not .Values.runtime.configure | quote }}
- name: CDI_ENABLED
  value: {{ include "container-toolkit.cdi" . | empty | not | quote }}
{{- if include "container-toolkit.nri" . }}
- name: ENABLE_NRI_PLUGIN
  value: "true"
- name: POD_RESOURCES_SOCKET
  value: {{ include "outrigger.kubeletRootDir" . }}/pod-resources/kubelet.sock
{{- end }}
- name: ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED
  value: {{ or .Values.acceptVisibleDevicesEnvvar (include "container-toolkit.cdi" . | empty) | quote }}
- name: ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS
  value: {{ .Values.acceptVisibleDevicesVolumeMounts | quote }}
- name: ACCEPT_CDI_ANNOTATIONS_WHEN_UNPRIVILEGED
  value: {{ kindIs "bool" .Values.acceptCDIAnnotations | ternary .Values.acceptCDIAnnotations (semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version) | quote }}
# When this DaemonSet is deleted, the agent reverts all changes of the node.
- name: DAEMONSET_NAME
  value: {{ .Values.rbac.create | ternary (include "outrigger.fullname" .) "" | quote }}
- name: NAMESPACE
  value: {{ include "outrigger.namespace" . }}
{{- end -}}

{{- define "container-toolkit.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "NVIDIA_DEV_ROOT" (include "outrigger.devRoot" .))
  (list "RUNTIME_CONFIG" .Values.runtime.config)
  (list "RUNTIME_DROP_IN_CONFIG" .Values.runtime.dropInConfig)
  (list "RUNTIME_SOCKET" .Values.runtime.socket)
  (list "RUNTIME_RESTART_MODE" .Values.runtime.restartMode)
  (list "NVIDIA_CONTAINER_RUNTIME_MODE" .Values.mode)) -}}
{{- end -}}

{{- /* The user's variables, from env and from the operator's toolkit.env. */ -}}
{{- define "container-toolkit.userEnv" -}}
{{- $env := default list .Values.env -}}
{{- $names := list -}}
{{- range $env }}{{ $names = append $names .name }}{{ end -}}
{{- range default list (default dict .Values.toolkit).env -}}
{{- if not (has .name $names) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}
