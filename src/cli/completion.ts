import type { Command, Option } from "commander";

export type Shell = "bash" | "zsh" | "fish";

/** A place in the tree of commands, and what can be typed there. */
interface Place {
  /** The commands that lead there, each with a space before it; empty at the root. */
  readonly route: string;
  readonly words: readonly Word[];
}

interface Word {
  readonly text: string;
  readonly description: string;
  /** What comes after it is not ours to complete. */
  readonly takesValue: boolean;
}

/** A script for a shell that completes every command and option of the tree; the same tree that reads what is typed. */
export function completionScript(shell: Shell, program: Command): string {
  return { bash, zsh, fish }[shell](placesOf(program, ""));
}

function placesOf(command: Command, route: string): Place[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command).filter((each) => each.name() !== "help");
  const words = [...commands.map(commandWord), ...choicesOf(command), ...help.visibleOptions(command).flatMap(flagsOf)];
  return [{ route, words }, ...commands.flatMap((each) => placesOf(each, `${route} ${each.name()}`))];
}

const commandWord = (command: Command): Word => ({
  text: command.name(),
  description: command.description(),
  takesValue: false,
});

/** What an argument may be, where that is known. */
const choicesOf = ({ registeredArguments }: Command): Word[] =>
  registeredArguments
    .flatMap(({ argChoices }) => argChoices ?? [])
    .map((text) => ({ text, description: "", takesValue: false }));

const flagsOf = ({ short, long, description, required, optional }: Option): Word[] =>
  [short, long]
    .filter((flag) => flag !== undefined)
    .map((text) => ({ text, description, takesValue: required || optional }));

/** The routes below the root: a word that leads to one of them is a command. */
const routesOf = (places: readonly Place[]) => places.map(({ route }) => route).filter((route) => route !== "");

function bash(places: readonly Place[]): string {
  const cases = places.map(({ route, words }) => {
    const valued = words.filter(({ takesValue }) => takesValue);
    return `    ${quoted(route)}) words="${texts(words)}" valued="${texts(valued)}" ;;`;
  });
  return `_holdfast() {
  local route="" words="" valued="" at
  for ((at = 1; at < COMP_CWORD; at++)); do
    [[ \${COMP_WORDS[at]} == -- ]] && return
    case "$route \${COMP_WORDS[at]}" in
      ${routesOf(places).map(quoted).join("|")}) route="$route \${COMP_WORDS[at]}" ;;
    esac
  done
  case "$route" in
${cases.join("\n")}
  esac
  [[ " $valued " == *" \${COMP_WORDS[COMP_CWORD - 1]} "* ]] && return
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _holdfast holdfast
`;
}

const texts = (words: readonly Word[]) => words.map(({ text }) => text).join(" ");

function zsh(places: readonly Place[]): string {
  const choice = ({ text, description }: Word) => quoted(`${text}:${description.replaceAll(":", "\\:")}`);
  const cases = places.map(({ route, words }) => `    ${quoted(route)}) choices=(${words.map(choice).join(" ")}) ;;`);
  return `#compdef holdfast
_holdfast() {
  local route="" word
  local -a choices
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if [[ $word == -- ]]; then
      _files
      return
    fi
    case "$route $word" in
      ${routesOf(places).map(quoted).join("|")}) route="$route $word" ;;
    esac
  done
  case "$route" in
${cases.join("\n")}
  esac
  _describe holdfast choices || _files
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ route, words }) => {
    const there = `complete -c holdfast -n ${fishQuoted(`__holdfast_at '${route}'`)}`;
    return words.map((word) => `${there} ${fishWord(word)} -d ${fishQuoted(word.description)}`);
  });
  return `function __holdfast_at
  set -l route ""
  set -l typed (commandline -opc)
  set -e typed[1]
  for word in $typed
    switch "$route $word"
      case '* --'
        return 1
      case ${routesOf(places).map(fishQuoted).join(" ")}
        set route "$route $word"
    end
  end
  test "$route" = "$argv[1]"
end
${lines.join("\n")}
`;
}

function fishWord({ text, takesValue }: Word): string {
  const value = takesValue ? " -r" : "";
  if (text.startsWith("--")) return `-l ${text.slice(2)}${value}`;
  if (text.startsWith("-")) return `-s ${text.slice(1)}${value}`;
  return `-f -a ${text}`;
}

/** In single quotes, as a POSIX shell reads them. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** In single quotes, as fish reads them. */
const fishQuoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
