{{- define "device-plugin.daemonset" -}}
{{- include "device-plugin.check" . -}}
{{- if .Values.devicePlugin.enabled -}}
{{- $hostNetwork := or .Values.devicePlugin.enableHostNetwork .Values.hostNetwork -}}
{{- $env := include "device-plugin.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" $hostNetwork "own" (include "device-plugin.pluginEnv" . | fromYamlArray)) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .)
        "api" (or .Values.events.enabled (include "outrigger.configMapName" .)) "grace" 30) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if $hostNetwork }}
      hostNetwork: true
      {{- end }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "device-plugin" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" (default .Values.resources .Values.devicePlugin.resources)) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" $hostNetwork) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "device-plugin.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "device-plugin.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end }}
{{- end -}}
