/** Checks the configuration for faults and for exposed secrets. Every setting is reported beside the findings. */

import { CURRENT_FORMAT } from '../../checkpoint/sqlite/format.ts';
import { sqliteVersion } from '../../checkpoint/sqlite/open.ts';
import type { Inspection } from '../../configuration/configuration.ts';
import type { SettingKey } from '../../configuration/schema.ts';
import { type Machine, usableMemory } from '../../configuration/setting.ts';
import { FORMAT_VERSION } from '../../destination/duckdb/catalog/schema.ts';
import { formatBytes } from '../../lib/units.ts';
import { duckDbVersion } from '../../staging/engine/engine.ts';
import type { Runtime } from '../context.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { type Facts, type Finding, ok, problem, warning } from './check.ts';
import { type FileSeen, readableByOthers, seeFile } from './disk.ts';
import { hookFindings } from './hook.ts';

export async function checkConfiguration({ inspection, context }: Facts): Promise<readonly Finding[]> {
  return [
    ok('file', inspection.filePath ?? 'none: everything comes from flags, variables and defaults'),
    ...problemFindings(inspection.problems),
    ...(await secretFindings(inspection)),
    ...memoryFindings(inspection.known('duckdb.memoryLimit'), context.machine),
    ...(await hookFindings(inspection.known('hooks.afterCommit'), context.environment['PATH'])),
  ];
}

const HELP = [
  'What each setting means: feed-sync settings',
  'For a commented example of a file: feed-sync init',
];

/** A remedy of all findings is named once, with the last of them. */
function problemFindings(problems: Inspection['problems']): readonly Finding[] {
  return problems.map(({ subject, fault: said, source }, index) => {
    const found = `${subject} ${said}${source === null ? '' : ` (${source})`}`;
    const hints = index === problems.length - 1 ? HELP : [];
    return problem('setting', found, EXIT_CODES.wrongConfiguration, ...hints);
  });
}

async function secretFindings(inspection: Inspection): Promise<readonly Finding[]> {
  const secretPath = inspection.known('webhook.secretFile');
  const secret = secretPath === null ? null : await seeFile(secretPath);
  const keyFiles = await Promise.all(keyPaths(inspection).map(seeFile));
  return [
    ...keyFiles.flatMap((file) => openSecret('API key', file)),
    ...openSecret('webhook secret', secret),
    ...(secretPath === null || secret !== null ? [] : [missingSecret(secretPath)]),
  ];
}

/** The files that contain the API key. */
function keyPaths({ filePath, settings }: Inspection): readonly string[] {
  const find = (key: SettingKey) => settings.find((setting) => setting.key === key) ?? null;
  const keyFile = find('service.apiKeyFile')?.value ?? null;
  const source = find('service.apiKey')?.source ?? '';
  const isInFile = filePath !== null && source.startsWith(`file ${filePath}:`);
  return [...(isInFile ? [filePath] : []), ...(keyFile === null ? [] : [keyFile])];
}

function openSecret(about: string, file: FileSeen | null): readonly Finding[] {
  if (file === null || !readableByOthers(file)) return [];
  const found = `Others on this machine can read it in ${file.path} (mode ${file.mode.toString(8)}).`;
  return [warning(about, found, `chmod 600 ${file.path}`)];
}

function missingSecret(path: string): Finding {
  const found = `${path} (webhook.secretFile) is not there, or cannot be examined.`;
  const hint = 'To register a webhook and keep its secret there: feed-sync webhook add';
  return warning('webhook secret', found, hint);
}

/** Judges the memory limit. DuckDB is not alone in its process, so its limit must be lower than the machine's memory. */
export function memoryFindings(limitBytes: number | null, machine: Machine): readonly Finding[] {
  const usable = usableMemory(machine);
  if (limitBytes === null || limitBytes < usable) return [];
  const found = `DuckDB may use ${formatBytes(limitBytes)}, and container or machine have ${formatBytes(usable)} in all.`;
  const hint =
    'Set duckdb.memoryLimit to half of that, or leave it out: the process would be killed before it spills to disk.';
  return [warning('memory', found, hint)];
}

export function checkVersions({ version, context }: Facts): readonly Finding[] {
  const formats = `checkpoint ${CURRENT_FORMAT}, mirror ${FORMAT_VERSION}`;
  return [
    judgeRuntime(version, context.runtime),
    ok('databases', `DuckDB ${duckDbVersion()}, SQLite ${sqliteVersion()}; formats: ${formats}`),
  ];
}

export function judgeRuntime(version: string, runtime: Runtime): Finding {
  const { nodeVersion, leastNodeVersion, operatingSystem } = runtime;
  const found = `${version} on Node ${nodeVersion}, ${operatingSystem}`;
  if (!isOlder(nodeVersion, leastNodeVersion)) return ok('feed-sync', found);
  return warning(
    'feed-sync',
    `${found}; it is made for Node ${leastNodeVersion} and later`,
    `Run it on a newer Node: ${leastNodeVersion} or later.`,
  );
}

/** Compared number by number: 24.9 is older than 24.18. */
function isOlder(version: string, least: string): boolean {
  const numbers = version.split('.').map(Number);
  for (const [index, number] of least.split('.').map(Number).entries()) {
    const own = numbers[index] ?? 0;
    if (own !== number) return own < number;
  }
  return false;
}
