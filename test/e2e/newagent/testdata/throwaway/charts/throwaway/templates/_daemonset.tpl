{{- define "throwaway.daemonset" -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "more" list "theirs" .Values.env) -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "outrigger.fullname" .) "labels" (include "outrigger.labels" .)
  "selector" (include "outrigger.selectorLabels" .) "updateStrategy" (include "outrigger.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "api" false "grace" 5) | nindent 6 }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "throwaway" "args" list "env" $env "resources" .Values.resources) | nindent 10 | trim }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port) | nindent 10 }}
          {{- end }}
          {{- with include "outrigger.tlsMount" . }}
          volumeMounts:
            {{- nindent 12 . }}
          {{- end }}
      {{- with include "outrigger.tlsVolume" . }}
      volumes:
        {{- nindent 8 . }}
      {{- end }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
