{{- define "gpu-sim.daemonset" -}}
{{- include "gpu-sim.check" . -}}
{{- $more := include "gpu-sim.env" . | fromYamlArray -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork "more" $more "theirs" .Values.env) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "api" true "grace" 40) | nindent 6 }}
      {{- if .Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      # NVML lists the processes of pods by their numbers on the node.
      hostPID: true
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "gpu-sim" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" .Values.resources) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork "program" "gpu-sim-node") | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "gpu-sim.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "gpu-sim.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" (include "gpu-sim.affinity" . | fromYaml)
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
