package cmdline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// shells are the programs that let a shell complete the words in its arguments. They print
// one completion per line. zsh completes only in an interactive shell: compadd is a
// function here that prints the words that would be offered.
var shells = map[string]string{
	"bash": `
		source ./x
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_tool_complete
		printf '%s\n' "${COMPREPLY[@]}"`,
	"zsh": `
		autoload -U compinit && compinit -D
		source ./x
		[[ ${_comps[tool]} == _tool_complete ]] || exit 1
		words=("$@") CURRENT=$#
		compadd() { local i; shift; for i; do [[ $i != ${words[CURRENT]}* ]] || print -r -- $i; done }
		_files() { print FILES }
		_tool_complete`,
	"fish": `
		source ./x
		complete --do-complete "$(string join ' ' -- $argv)" | string replace -r '\t.*' '' || true`,
}

func TestShellsComplete(t *testing.T) {
	self, err := os.Executable()
	assert.NilError(t, err)
	dir := t.TempDir()
	assert.NilError(t, os.Symlink(self, filepath.Join(dir, "tool")))
	for shell, script := range shells {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("this machine has no " + shell)
			}
			text := scriptOf(t, shell)
			for name, test := range map[string]struct{ words, want []string }{
				"commands":             {[]string{"tool", "s"}, []string{"set", "show"}},
				"commands of a group":  {[]string{"tool", "group", "l"}, []string{"list", "ls"}},
				"flags":                {[]string{"tool", "--q"}, []string{"--quiet"}},
				"flags of a command":   {[]string{"tool", "show", "--"}, []string{"--help", "--json"}},
				"nothing after dashes": {[]string{"tool", "set", "--", "s"}, nil},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					args := []string{"-c", script}
					if shell != "fish" { // whose first argument is no name of the script
						args = append(args, shell)
					}
					cmd := exec.CommandContext(t.Context(), path, append(args, test.words...)...)
					cmd.Dir = t.TempDir() // which has no files to complete but the script
					assert.NilError(t, os.WriteFile(filepath.Join(cmd.Dir, "x"), []byte(text), 0o600))
					cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+cmd.Dir)
					out, err := cmd.CombinedOutput()
					got := slices.DeleteFunc(strings.Fields(string(out)), func(w string) bool { return w == "FILES" })
					slices.Sort(got)
					if err != nil || !slices.Equal(got, test.want) {
						t.Errorf("%s completes %q to %q (%v), want %q", shell, test.words, got, err, test.want)
					}
				})
			}
		})
	}
}
