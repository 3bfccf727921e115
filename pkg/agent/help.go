package agent

// helpTemplate is the text of --help.
const helpTemplate = `{{.Name}}: {{.Usage}}

Usage: {{.UsageText}}

Commands:{{range .VisibleCommands}}
   {{join .Names ", "}}{{"\t"}}{{.Usage}}{{end}}

Options:{{range .VisibleFlags}}
   {{.}}{{end}}
`
