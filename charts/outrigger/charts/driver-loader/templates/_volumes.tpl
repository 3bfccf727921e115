{{- /* README.md, "Privileges and why", lists the reasons. */ -}}
{{- define "driver-loader.volumeMounts" -}}
- name: host
  mountPath: /host
  mountPropagation: HostToContainer
- name: sys
  mountPath: /host/sys
- name: run-nvidia
  mountPath: /run/nvidia
  mountPropagation: Bidirectional
- name: store
  mountPath: {{ .Values.store }}
{{- if include "driver-loader.image" . }}
- name: programs
  mountPath: {{ include "driver-loader.programs" . }}
  readOnly: true
{{- end }}
{{- if .Values.payload }}
- name: payload
  mountPath: {{ .Values.payload }}
  readOnly: true
{{- end }}
{{- if .Values.repoConfig.configMapName }}
- name: repo-config
  mountPath: {{ .Values.repoConfig.destinationDir }}
  readOnly: true
{{- end }}
{{- if .Values.certConfig.name }}
- name: cert-config
  mountPath: /usr/local/share/ca-certificates
  readOnly: true
{{- end }}
{{- if .Values.kernelModuleConfig.name }}
- name: kernel-module-config
  mountPath: {{ include "driver-loader.moduleConfigDir" . }}
  readOnly: true
{{- end }}
{{- if include "driver-loader.license" . }}
- name: licensing-config
  mountPath: /etc/nvidia/gridd.conf
  subPath: gridd.conf
  readOnly: true
{{- if .Values.licensingConfig.nlsEnabled }}
- name: licensing-config
  mountPath: /etc/nvidia/ClientConfigToken/client_configuration_token.tok
  subPath: client_configuration_token.tok
  readOnly: true
{{- end }}
{{- end }}
{{- if .Values.signing.secretName }}
- name: signing
  mountPath: /signing
  readOnly: true
{{- end }}
{{- with include "outrigger.tlsMount" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- /* The name of the Secret or ConfigMap with the vGPU license. */ -}}
{{- define "driver-loader.license" -}}
{{- .Values.licensingConfig.secretName | default .Values.licensingConfig.configMapName -}}
{{- end -}}

{{- define "driver-loader.volumes" -}}
- name: host
  hostPath:
    path: /
    type: Directory
- name: sys
  hostPath:
    path: /sys
    type: Directory
- name: run-nvidia
  hostPath:
    path: /run/nvidia
    type: DirectoryOrCreate
- name: store
  hostPath:
    path: {{ .Values.store }}
    type: DirectoryOrCreate
{{- if include "driver-loader.image" . }}
- name: programs
  emptyDir: {}
{{- end }}
{{- with .Values.payload }}
- name: payload
  hostPath:
    path: {{ . }}
{{- end }}
{{- with .Values.repoConfig.configMapName }}
- name: repo-config
  configMap:
    name: {{ . }}
{{- end }}
{{- with .Values.certConfig.name }}
- name: cert-config
  configMap:
    name: {{ . }}
{{- end }}
{{- with .Values.kernelModuleConfig.name }}
- name: kernel-module-config
  configMap:
    name: {{ . }}
{{- end }}
{{- if .Values.licensingConfig.secretName }}
- name: licensing-config
  secret:
    secretName: {{ .Values.licensingConfig.secretName }}
{{- else if .Values.licensingConfig.configMapName }}
- name: licensing-config
  configMap:
    name: {{ .Values.licensingConfig.configMapName }}
{{- end }}
{{- with .Values.signing.secretName }}
- name: signing
  secret:
    secretName: {{ . }}
    defaultMode: 256
{{- end }}
{{- with include "outrigger.tlsVolume" . }}
{{ . }}
{{- end }}
{{- end -}}
