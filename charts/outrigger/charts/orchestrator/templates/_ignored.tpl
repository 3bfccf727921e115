{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "orchestrator.withoutEffect" -}}
- [initContainer, "there is no such container; remove it"]
- [labels, "the labels of the pods are in another key; use podLabels"]
- [logging.develMode, "there is no development mode; use logLevel"]
- [logging.timeEncoding, "times are in RFC 3339; remove it"]
- [use_ocp_driver_toolkit, "OpenShift is not supported; remove it"]
{{- end -}}
