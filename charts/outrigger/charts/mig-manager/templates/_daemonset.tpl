{{- define "mig-manager.daemonset" -}}
{{- include "mig-manager.check" . -}}
{{- $more := concat (include "mig-manager.env" . | fromYamlArray) (include "mig-manager.choices" . | fromYamlArray) -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork "more" $more "theirs" .Values.env) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "api" true "grace" 360) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if .Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      # The driver shows a process only processes of its own PID namespace.
      hostPID: true
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "mig-manager" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" .Values.resources) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "mig-manager.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "mig-manager.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
