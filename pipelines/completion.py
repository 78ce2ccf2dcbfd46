"""`electra completion bash` and `zsh`: what the shell offers after TAB, made of the command line's own table.

    source <(electra completion bash)        for now, or in ~/.bashrc for good; in ~/.zshrc with zsh

The shell itself reads names of models and so on from params.yaml of the folder it is in, whose sections are indented by
two: starting Python for a TAB would take longer than typing.
"""

import argparse

from pipelines.arguments import STAGES, parser

_MODELS = "models ablations published finetunings"
_SECTIONS = {"flow": "models", "play": "models published", "replay": "models", "score": "tasks"}

_SCRIPT = """\
# What `electra` offers after TAB; made by `electra completion {name}`.
{start}_electra_names() {{
  [ -r params.yaml ] && awk -v wanted=" $* " '
    /^[^ #]/ {{ section = $1; sub(/:.*/, "", section) }}
    /^  [^ #-]/ && index(wanted, " " section " ") {{ name = $1; sub(/:.*/, "", name); print name }}' params.yaml
}}
_electra() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" offered="" options="" place=0 i
  for ((i = 2; i < COMP_CWORD; i++)); do case "${{COMP_WORDS[i]}}" in -*) ;; *) place=$((place + 1)) ;; esac; done
  if [ "$COMP_CWORD" -eq 1 ]; then
    offered="{commands}" options="--help --version"
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  case "$word" in -*) offered="$options" ;; esac
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}}
complete -o default -F _electra electra
"""


def script(shell: str) -> str:
    """The shell's code; files are offered where nothing else is."""
    commands = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    cases = "\n".join(f"      {name}) {_case(name, sub)} ;;" for name, sub in commands.choices.items())
    start = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return _SCRIPT.format(name=shell, start=start, commands=" ".join(commands.choices), cases=cases)


def _case(command: str, sub: argparse.ArgumentParser) -> str:
    """What one command offers: values of the option before, else of the place among the words, and options."""
    options = [name for action in sub._actions for name in action.option_strings if name.startswith("--")]
    parts = [f'options="{" ".join(options)}"']
    positional = [action for action in sub._actions if not action.option_strings]
    places = [(str(place), _offered(command, action)) for place, action in enumerate(positional)]
    if positional and positional[-1].nargs == "*":
        places[-1] = ("*", places[-1][1])
    found = "; ".join(f"{place}) {words} ;" for place, words in places if words)
    if found:
        parts.append(f'case "$place" in {found}; esac')
    for action in sub._actions:
        if action.option_strings and action.choices:
            choices = " ".join(map(str, action.choices))
            parts.append(f'[ "$before" = {action.option_strings[0]} ] && offered="{choices}"')
    return "; ".join(parts)


def _offered(command: str, action: argparse.Action) -> str:
    """The shell's assignment for one word; nothing where it is a file."""
    if action.choices:
        return f'offered="{" ".join(map(str, action.choices))}"'
    if action.dest in {"name", "first", "second"} or command == "play":
        return f'offered="$(_electra_names {_SECTIONS.get(command) or STAGES.get(command) or _MODELS})"'
    return 'offered="$(ls runs 2>/dev/null)"' if action.dest == "runs" else ""
