{{- define "container-toolkit.daemonset" -}}
{{- include "container-toolkit.check" . -}}
{{- $more := concat (include "container-toolkit.env" . | fromYamlArray) (include "container-toolkit.choices" . | fromYamlArray) -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork "more" $more "theirs" (include "container-toolkit.userEnv" . | fromYamlArray)) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "api" .Values.rbac.create "grace" 30) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if .Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      # The agent finds the running container engine, and sends signals to it.
      hostPID: true
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "container-toolkit" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" (default .Values.resources (default dict .Values.toolkit).resources)) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "container-toolkit.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "container-toolkit.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
