{{- define "feature-discovery.daemonset" -}}
{{- include "feature-discovery.check" . -}}
{{- $more := concat (include "feature-discovery.env" . | fromYamlArray) (include "feature-discovery.choices" . | fromYamlArray) -}}
{{- $hostNetwork := include "feature-discovery.hostNetwork" . -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" $hostNetwork "more" $more "theirs" .Values.env) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .)
        "api" (include "feature-discovery.usesAPI" .) "grace" 30) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if $hostNetwork }}
      hostNetwork: true
      {{- end }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "feature-discovery" "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" (get (default dict .Values.gfd) "resources" | default .Values.resources)) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" $hostNetwork) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "feature-discovery.volumeMounts" . | nindent 12 }}
      volumes:
        {{- include "feature-discovery.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "feature-discovery.taint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
