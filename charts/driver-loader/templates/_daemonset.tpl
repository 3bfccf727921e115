{{- define "driver-loader.daemonset" -}}
{{- $more := concat (include "driver-loader.env" . | fromYamlArray) (include "driver-loader.choices" . | fromYamlArray) -}}
{{- $env := include "outrigger.env" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork "more" $more "theirs" .Values.env) -}}
{{- $manager := include "outrigger.image" (dict "root" $ "values" (merge (dict "own" true) .Values.manager) "at" "manager." "name" $.Chart.Name) -}}
{{- $image := include "driver-loader.image" . -}}
{{- $label := include "driver-loader.kindLabel" . -}}
{{ include "outrigger.daemonset" (dict "root" $ "name" (include "driver-loader.daemonsetName" .) "labels" (print (include "outrigger.labels" .) $label) "annotations" .annotations
  "selector" (print (include "outrigger.selectorLabels" .) $label) "updateStrategy" (include "driver-loader.updateStrategy" . | fromYaml)) }}
    spec:
      {{- include "outrigger.pod" (dict "root" $ "account" (include "outrigger.serviceAccountName" .) "api" .Values.rbac.create "grace" 60) | nindent 6 }}
      {{- with include "outrigger.podRuntime" . }}{{ nindent 6 . }}{{ end }}
      {{- if .Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      # The agent reports the processes that use the driver.
      hostPID: true
      {{- if $image }}
      # The driver's image has the compiler and the packages of its distribution. This container
      # copies the agent into it.
      initContainers:
        - name: install
          image: {{ $manager }}
          imagePullPolicy: {{ include "outrigger.pullPolicy" $ }}
          args: [install, {{ include "driver-loader.programs" . }}]
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: programs
              mountPath: {{ include "driver-loader.programs" . }}
      {{- end }}
      containers:
        - {{ include "outrigger.container" (dict "root" $ "name" "driver-loader" "image" (default $manager $image)
            "command" (empty $image | ternary list (list (printf "%s/driver-loader" (include "driver-loader.programs" .))))
            "args" (include "outrigger.args" . | fromYamlArray) "env" $env "resources" .Values.resources) | nindent 10 | trim }}
          {{- with .Values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .Values.metrics.port }}
          {{- include "outrigger.probes" (dict "root" $ "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork
            "path" (empty $image | ternary "" (printf "%s/driver-loader" (include "driver-loader.programs" .)))) | nindent 10 }}
          {{- end }}
          volumeMounts:
            {{- include "driver-loader.volumeMounts" . | nindent 12 }}
        {{- range $at, $name := dict "gds" "nvidia-fs" "gdrcopy" "gdrdrv" }}
        {{- with include "driver-loader.sources" (dict "root" $ "at" $at "name" $name) }}
        # Copies the sources of {{ $name }} from its image into the store. The driver does not wait for it.
        - name: {{ $at }}
          image: {{ . }}
          imagePullPolicy: {{ include "outrigger.pullPolicy" $ }}
          command: ["{{ include "driver-loader.programs" $ }}/driver-loader"]
          args: ["--store={{ $.Values.store }}", import-sources, --stay, /]
          resources:
            {{- toYaml $.Values.resources | nindent 12 }}
          # It writes to a folder of the host that belongs to root.
          securityContext:
            runAsUser: 0
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
            seLinuxOptions:
              type: spc_t
          volumeMounts:
            - name: store
              mountPath: {{ $.Values.store }}
            - name: programs
              mountPath: {{ include "driver-loader.programs" $ }}
              readOnly: true
        {{- end }}
        {{- end }}
      volumes:
        {{- include "driver-loader.volumes" . | nindent 8 }}
      {{- with include "outrigger.placement" (dict "nodeSelector" .Values.nodeSelector "affinity" .Values.affinity
        "tolerations" (include "outrigger.tolerations" (dict "root" $ "taint" (include "outrigger.startupTaint" .)) | fromYamlArray)) }}{{ nindent 6 . }}{{ end }}
{{- end -}}
