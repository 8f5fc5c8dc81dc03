/** What is wrong with the configuration, and what in it gives a secret away. Every setting is told beside it. */

import type { Machine } from '../../configuration/setting.ts';
import { formatBytes } from '../../lib/units.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import type { Check, Checked, Patient } from './check.ts';
import { type Finding, ok, trouble, warning } from './findings.ts';
import { readableByOthers, seeFile } from './places.ts';

const LIMIT_MS = 5_000;

export const configurationCheck: Check = {
  name: 'configuration',
  limitMs: LIMIT_MS,
  run: checkConfiguration,
};

async function checkConfiguration({ inspection, context }: Patient): Promise<Checked> {
  const { filePath, problems } = inspection;
  const file = ok('file', filePath ?? 'none: everything comes from flags, variables and defaults');
  const found = problems.map(({ subject, trouble: said, source }) =>
    trouble(
      'setting',
      `${subject} ${said}${source === null ? '' : ` (${source})`}`,
      EXIT_CODES.wrongConfiguration,
    ),
  );
  const help =
    problems.length === 0
      ? []
      : ['What each setting means: feed-sync settings', 'For a commented example of a file: feed-sync init'];
  const last = found.at(-1);
  return {
    findings: [
      file,
      ...found.slice(0, -1),
      ...(last === undefined ? [] : [{ ...last, hints: help }]),
      ...(await openSecrets(patientFiles(filePath, inspection.settings))),
      ...memoryFindings(inspection.known('duckdb.memoryLimit'), context.machine),
    ],
  };
}

/** The files that hold the API key, or name it. */
function patientFiles(
  filePath: string | null,
  settings: Patient['inspection']['settings'],
): readonly string[] {
  const key = settings.find((setting) => setting.key === 'service.apiKey');
  const keyFile = settings.find((setting) => setting.key === 'service.apiKeyFile')?.value ?? null;
  const isInFile = key?.value != null && filePath !== null && key.source.startsWith(`file ${filePath}:`);
  return [...(isInFile ? [filePath] : []), ...(keyFile === null ? [] : [keyFile])];
}

async function openSecrets(paths: readonly string[]): Promise<readonly Finding[]> {
  const seen = await Promise.all(paths.map(seeFile));
  return seen.flatMap((file) =>
    file !== null && readableByOthers(file)
      ? [
          warning(
            'API key',
            `Others on this machine can read it in ${file.path} (mode ${file.mode.toString(8)}).`,
            `chmod 600 ${file.path}`,
          ),
        ]
      : [],
  );
}

/** DuckDB is not alone in its process: what it may use must be less than what there is. */
export function memoryFindings(limitBytes: number | null, machine: Machine): readonly Finding[] {
  const { memoryBytes, constrainedMemoryBytes } = machine;
  const usable = constrainedMemoryBytes > 0 ? Math.min(constrainedMemoryBytes, memoryBytes) : memoryBytes;
  if (limitBytes === null || limitBytes < usable) return [];
  return [
    warning(
      'memory',
      `DuckDB may use ${formatBytes(limitBytes)}, and container or machine have ${formatBytes(usable)} in all.`,
      'Set duckdb.memoryLimit to half of that, or leave it out: the process would be killed before it spills to disk.',
    ),
  ];
}
