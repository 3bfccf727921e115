{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "validator.withoutEffect" -}}
- [cuda, "there is no such validation; use driver and plugin"]
- [hostNetwork, "the pods use no network; remove it"]
- [toolkit, "there is no such validation; use driver and plugin"]
- [vfioPCI, "there is no such validation; use driver and plugin"]
- [vgpuDevices, "there is no such validation; use driver and plugin"]
- [vgpuManager, "there is no such validation; use driver and plugin"]
{{- end -}}
