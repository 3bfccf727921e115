{{- define "dcgm-exporter.daemonset" -}}
{{- include "dcgm-exporter.check" . -}}
{{- $more := concat (include "dcgm-exporter.env" . | fromYamlArray) (include "dcgm-exporter.choices" . | fromYamlArray) -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork "more" $more "theirs" (include "dcgm-exporter.userEnv" . | fromYamlArray)) -}}
{{- $annotations := merge (deepCopy (default dict .Values.podAnnotations)) (default dict .Values.annotations) -}}
{{- $root := dict "Release" .Release "Values" (set (omit .Values "podAnnotations") "podAnnotations" $annotations) -}}
{{ include "outrigger.daemonset" (dict "root" $root "name" (include "outrigger.fullname" .) "labels" (include "dcgm-exporter.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .)
        "api" (include "dcgm-exporter.readsPods" .) "grace" 5) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if .Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      {{- if .Values.hostPID }}
      # The driver shows a process only processes of its own PID namespace. Without the host's PID
      # namespace, it would not show the processes of pods.
      hostPID: true
      {{- end }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "dcgm-exporter" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" .Values.resources) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          # For the device nodes: an unprivileged container can open only the devices that its
          # runtime has allowed at the start. /dev is a mount, so the runtime does not allow the
          # devices in it.
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "dcgm-exporter.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "dcgm-exporter.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
