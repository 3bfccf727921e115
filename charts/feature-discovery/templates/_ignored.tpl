{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "feature-discovery.withoutEffect" -}}
- [allowDefaultNamespace, "every namespace is allowed; remove it"]
- [cdi, "only the chart device-plugin uses it; set it there"]
- [compatWithCPUManager, "only the chart device-plugin uses it; set it there"]
- [componentSelectorLabels, "the DaemonSets select their pods by different labels; remove it"]
- [configManager, "the agents follow the config themselves without a sidecar; remove it"]
- [deviceIDStrategy, "only the chart device-plugin uses it; set it there"]
- [deviceListStrategy, "only the chart device-plugin uses it; set it there"]
- [devicePlugin, "only the chart device-plugin uses it; set it there"]
- [gdrcopyEnabled, "only the chart device-plugin uses it; set it there"]
- [gdsEnabled, "only the chart device-plugin uses it; set it there"]
- [legacyDaemonsetAPI, "Kubernetes 1.16 removed that API; remove it"]
- [logVerbosity, "the levels of the log have names; use logLevel"]
- [mofedEnabled, "only the chart device-plugin uses it; set it there"]
- [mps, "only the chart device-plugin uses it; set it there"]
- [nfd, "Node Feature Discovery is not needed; install it separately if you use its labels"]
- [nvidiaDriverCapabilities, "the pods use the driver without NVIDIA's runtime; remove it"]
{{- end -}}
