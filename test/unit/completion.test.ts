/** Completion for shells and the examples of the help: both follow from the commands as they are defined. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { describe, expect, it, onTestFinished } from 'vitest';
import { defineCommands } from '../../src/cli/commands.ts';
import { completionScript, SHELLS, type Shell } from '../../src/cli/completion.ts';
import type { Context } from '../../src/cli/context.ts';
import { EXAMPLES } from '../../src/cli/examples.ts';
import { settings } from '../../src/configuration/schema.ts';

function defined(): Command {
  const program = new Command('feed-sync').exitOverride().configureOutput({ writeErr() {} });
  // No command is run.
  defineCommands(program, '1.2.3', {} as Context, () => {});
  return program;
}

/** By the words that call them. */
function commandsOf(program: Command): ReadonlyMap<string, Command> {
  const named = program.commands.flatMap((command) =>
    command.commands.length === 0
      ? [[command.name(), command] as const]
      : command.commands.map((one) => [`${command.name()} ${one.name()}`, one] as const),
  );
  return new Map(named);
}

/** Runs a script in the shell; null where the machine has no such shell. */
function ran(shell: Shell, script: string, ...words: readonly string[]): string | null {
  const { stdout, stderr, status, error } = spawnSync(shell, ['-c', script, ...words], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  if (error !== undefined) return null;
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout;
}

/** What bash offers after these words, of which the last is being typed. */
function offered(...words: readonly string[]): readonly string[] {
  const typed = words.map((word) => `'${word}'`).join(' ');
  const script = `${completionScript(defined(), 'bash')}
COMP_WORDS=(feed-sync ${typed}); COMP_CWORD=${words.length}; _feed_sync; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return (ran('bash', script) ?? '').trim().split('\n');
}

/** Whether bash is told to offer names of files where there is no word to offer. */
function offersFiles(...words: readonly string[]): boolean {
  const typed = words.map((word) => `'${word}'`).join(' ');
  const script = `${completionScript(defined(), 'bash')}
compopt() { printf '%s' "$*"; }
COMP_WORDS=(feed-sync ${typed}); COMP_CWORD=${words.length}; _feed_sync; true`;
  return ran('bash', script) !== '+o default';
}

/**
 * A zsh at a terminal types a line and one Tab, with the script as a file in fpath, and prints what became of the line. `$1` is
 * the folder, `$2` the line, `$3` what is waited for, `$4` what is typed behind the Tab. The command prints its words.
 */
const ONE_TAB = `
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PS1='> '; fpath=($1 \\$fpath); autoload -U compinit; compinit -u -D; setopt nobeep; feed-sync() { print \\"\\$*\\" DO''NE }; print REA''DY"
said=
wait_for() { repeat 200; do zpty -r -t shell line && said+=$line; [[ $said == *$1* ]] && return; sleep 0.05; done }
wait_for READY
said=
zpty -w -n shell "$2"$'\\t'"$4"
wait_for "$3"
print -r -- $said
zpty -d shell
`;

describe('the completion for shells', () => {
  it.each(SHELLS)('the completion for %s names every command and every option', (shell) => {
    const program = defined();
    const script = completionScript(program, shell);
    const words = [...commandsOf(program).keys()].flatMap((name) => name.split(' '));
    expect(words.filter((word) => !new RegExp(`\\b${word}\\b`).test(script))).toEqual([]);
    const flags = [...settings.values()].flatMap(({ flag }) => flag ?? []);
    const ofCommands = [...commandsOf(program).values()].flatMap(({ options }) => options);
    const options = [...flags, ...ofCommands.flatMap(({ long }) => long ?? [])];
    const written = (option: string) => (shell === 'fish' ? `-l ${option.slice(2)} ` : option);
    expect(options.filter((option) => !script.includes(written(option)))).toEqual([]);
  });

  it('the completion in bash offers commands, options, subcommands and words of a closed set', () => {
    expect(offered('st')).toEqual(['status']);
    expect(offered('status', '--wat')).toEqual(['--watch']);
    expect(offered('--config', 'x', 'webhook', '')).toEqual(expect.arrayContaining(['add', 'test']));
    expect(offered('diff', '--format', '')).toEqual(['table', 'json', 'csv']);
    expect(offered('completion', 'x')).toEqual(['']);
    expect(offered('completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(offered('webhook', '')).toEqual(['add', 'list', 'remove', 'test']);
    // The value of an option is no command: the shell offers files.
    expect(offered('--config', '')).toEqual(['']);
    expect(offered('once', '--log-level', 'w')).toEqual(['warn']);
  });

  it.each([
    [['once', ''], false],
    [['webhook', 'add', ''], false],
    [['webhook', 'list', ''], false],
    [['init', ''], true],
    [['once', '--config', ''], true],
    [['once', '--config', '='], true],
    [['once', '--config', '=', 'feed'], true],
    [['query', '-f', ''], true],
    [['query', '--output', ''], true],
    [['diff', '--format', 'x'], false],
  ])(
    'the completion in bash after the words %j offers names of files only where a file is meant',
    (words, isFile) => {
      expect(offersFiles(...words)).toBe(isFile);
    },
  );

  it.for([
    ['feed-sync once zon', false],
    ['feed-sync init zon', true],
    ['feed-sync query -f zon', true],
    ['feed-sync once --config zon', true],
  ] as const)(
    'the completion in zsh completes "%s" to the name of a file only where a file is meant',
    ([line, isFile], { skip }) => {
      const folder = mkdtempSync(join(tmpdir(), 'feed-sync-completion-'));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      writeFileSync(join(folder, '_feed-sync'), completionScript(defined(), 'zsh'));
      writeFileSync(join(folder, 'zoning.yaml'), '');
      const shown = ran('zsh', `cd "$1"\n${ONE_TAB}`, 'zsh', folder, line, 'DONE', '\n');
      skip(shown === null, 'This machine has no zsh: its completion was not tried.');
      expect(shown?.includes('zoning.yaml')).toBe(isFile);
    },
  );

  it.for([
    ['feed-sync st', 'status'],
    ['feed-sync webhook rem', 'webhook remove'],
    ['feed-sync status --wat', '--watch'],
    ['feed-sync diff --format js', 'json'],
    ['feed-sync once --log-level wa', 'warn'],
  ] as const)(
    'the completion in zsh completes "%s" at the first Tab, from a file in fpath',
    ([line, whole], { skip }) => {
      const folder = mkdtempSync(join(tmpdir(), 'feed-sync-completion-'));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      writeFileSync(join(folder, '_feed-sync'), completionScript(defined(), 'zsh'));
      const shown = ran('zsh', ONE_TAB, 'zsh', folder, line, whole);
      skip(shown === null, 'This machine has no zsh: its completion was not tried.');
      expect(shown).toContain(whole);
    },
  );

  it('the completion in fish offers commands, subcommands, options and words of a closed set', ({ skip }) => {
    const script = completionScript(defined(), 'fish');
    const offeredByFish = (line: string): readonly string[] | null => {
      const said = ran('fish', `${script}\ncomplete -C ${JSON.stringify(line)}`);
      return (
        said
          ?.trim()
          .split('\n')
          .map((one) => one.split('\t')[0] ?? '') ?? null
      );
    };
    skip(offeredByFish('feed-sync st') === null, 'This machine has no fish: its completion was not tried.');
    expect(offeredByFish('feed-sync st')).toEqual(['status']);
    expect(offeredByFish('feed-sync webhook ')).toEqual(['add', 'list', 'remove', 'test']);
    expect(offeredByFish('feed-sync status --wat')).toEqual(['--watch']);
    expect(offeredByFish('feed-sync diff --format ')).toEqual(['csv', 'json', 'table']);
    expect(offeredByFish('feed-sync completion ')).toEqual(['bash', 'fish', 'zsh']);
    // Names of files, only where one is meant.
    expect(offeredByFish('feed-sync once pack')).toEqual(['']);
    expect(offeredByFish('feed-sync init pack')).toContain('package.json');
    expect(offeredByFish('feed-sync query -f pack')).toContain('package.json');
    expect(offeredByFish('feed-sync once --config pack')).toContain('package.json');
  });

  it.for(['zsh', 'fish'] as const)(
    'the completion for %s is a script that the shell reads',
    (shell, { skip }) => {
      const script = completionScript(defined(), shell);
      const read = ran(shell, shell === 'zsh' ? `autoload -U compinit; compinit -D\n${script}` : script);
      skip(read === null, `This machine has no ${shell}: its completion was not tried.`);
    },
  );
});

describe('the examples of the help', () => {
  const commands = commandsOf(defined());

  it('has examples for every command', () => {
    expect(Object.keys(EXAMPLES).toSorted()).toEqual([...commands.keys()].toSorted());
  });

  it.each(Object.values(EXAMPLES).flat())('parses the example %s', (example) => {
    const program = defined();
    const line = example.replace(/^.*?feed-sync /, '').replace(/ > .*$|(?<=^completion bash)\)$/, '');
    const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(
      ([, inQuotes, plain]) => inQuotes ?? plain ?? '',
    );
    const command = commands.get(words.slice(0, 2).join(' ')) ?? commands.get(words[0] ?? '');
    const all = [program, ...program.commands, ...program.commands.flatMap((one) => one.commands)];
    for (const one of all) one.action(() => {});
    expect(command, example).toBeDefined();
    expect(() => program.parse(words, { from: 'user' })).not.toThrow();
  });
});
