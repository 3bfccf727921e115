{{- define "feature-discovery.presence-daemonset" -}}
{{- if .Values.presence.enabled -}}
{{- $labels := include "feature-discovery.presenceLabels" . -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.presence.port
  "more" (include "feature-discovery.presenceEnv" . | fromYamlArray) "theirs" .Values.presence.env) -}}
# A separate DaemonSet: it runs on every node, so it has no privileges.
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "feature-discovery.presenceName" .) "labels" $labels
  "selector" (include "outrigger.partSelectorLabels" (dict "root" $ "part" "feature-discovery-presence"))
  "updateStrategy" .Values.presence.updateStrategy) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "feature-discovery.presenceServiceAccountName" .) "api" true "grace" 30) | nindent 6 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "presence" "args" .Values.presence.extraArgs "env" $env
          "resources" .Values.presence.resources) | nindent 10 | trim }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.presence.port) | nindent 10 }}
          {{- end }}
          volumeMounts:
            - name: sys
              mountPath: /host/sys
              readOnly: true
              # A simulator mounts GPUs over the PCI bus.
              mountPropagation: HostToContainer
            {{- if .Values.presence.osRelease }}
            - name: os-release
              mountPath: /host/etc/os-release
              readOnly: true
            {{- end }}
            {{- with include "outrigger.tlsMount" . }}
            {{- nindent 12 . }}
            {{- end }}
      volumes:
        - name: sys
          hostPath:
            path: {{ include "outrigger.sysRoot" . }}
            type: Directory
        {{- with .Values.presence.osRelease }}
        # The kubelet follows a symbolic link on the host. Without the type, the
        # runtime would create a folder of this name on a host without the file.
        - name: os-release
          hostPath:
            path: {{ . }}
            type: File
        {{- end }}
        {{- with include "outrigger.tlsVolume" . }}
        {{- nindent 8 . }}
        {{- end }}
      {{- with include "outrigger.placement" .Values.presence }}{{ nindent 6 . }}{{ end }}
{{- end }}
{{- end -}}
