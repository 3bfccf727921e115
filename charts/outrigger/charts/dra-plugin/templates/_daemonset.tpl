{{- define "dra-plugin.daemonset" -}}
{{- include "dra-plugin.check" . -}}
{{- $more := concat (include "dra-plugin.env" . | fromYamlArray) (include "dra-plugin.choices" . | fromYamlArray) -}}
{{- $hostNetwork := or .Values.enableHostNetwork .Values.hostNetwork -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" $hostNetwork "more" $more "theirs" .Values.env) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "api" true "grace" 5) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if $hostNetwork }}
      hostNetwork: true
      {{- end }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "dra-plugin" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" .Values.resources) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" $hostNetwork) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "dra-plugin.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "dra-plugin.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
