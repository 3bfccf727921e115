{{- define "validator.driver" -}}
{{- if .Values.driver.enabled -}}
{{- $env := list (dict "name" "NVIDIA_VISIBLE_DEVICES" "value" "all") (dict "name" "NVIDIA_DRIVER_CAPABILITIES" "value" "compute,utility") -}}
{{- if .Values.driver.report -}}
{{- $env = concat $env (list (dict "name" "VECTORADD_REPORT" "value" "true") (dict "name" "PROC_ROOT" "value" "/host/proc")) -}}
{{- end -}}
{{ include "validator.podTemplate" (dict "root" $ "name" "nvidia-driver-validation" "part" .Values.driver "validates" "container-toolkit") }}
    securityContext:
      {{- if .Values.driver.report }}
      # root owns the folder of the facts.
      runAsUser: 0
      runAsGroup: 0
      {{- else }}
      runAsNonRoot: true
      runAsUser: 65532
      runAsGroup: 65532
      {{- end }}
      seccompProfile:
        type: RuntimeDefault
    containers:
      - {{ include "validator.container" (dict "root" $ "env" (concat $env (default list .Values.driver.env)) "resources" .Values.resources) | nindent 8 | trim }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
            # NVIDIA's runtime gives the GPUs in NVIDIA_VISIBLE_DEVICES only to containers with this
            # capability. vectoradd drops it when it starts.
            add: [SYS_ADMIN]
        {{- if .Values.driver.report }}
        volumeMounts:
          - name: facts
            mountPath: /run/nvidia/validations
          - name: proc-driver
            mountPath: /host/proc/driver
            readOnly: true
    volumes:
      - name: facts
        hostPath:
          path: /run/nvidia/validations
          type: DirectoryOrCreate
      - name: proc-driver
        hostPath:
          path: /proc/driver
          type: Directory
        {{- end }}
{{- end }}
{{- end -}}
