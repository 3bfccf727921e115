{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "device-plugin.withoutEffect" -}}
- [allowDefaultNamespace, "every namespace is allowed; remove it"]
- [componentSelectorLabels, "the DaemonSets select their pods by different labels; remove it"]
- [configManager, "the agents follow the config themselves without a sidecar; remove it"]
- [gfd, "the chart feature-discovery sets the labels; install it with the same values file"]
- [logVerbosity, "the levels of the log have names; use logLevel"]
- [nfd, "Node Feature Discovery is not needed; install it separately if you use its labels"]
- [nvidiaDriverCapabilities, "the pods use the driver without NVIDIA's runtime; remove it"]
{{- end -}}
