/** `verify` for people. Pure. */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import { printable } from '../../lib/printable.ts';
import { formatCount } from '../../lib/units.ts';
import { tellHold } from '../person.ts';
import { renderTable } from '../table.ts';
import type { TroubleMet } from '../trouble-met.ts';
import type { DatasetVerification, Verification, VerificationResult } from './view.ts';

const WORDS: Readonly<Record<VerificationResult, string>> = {
  equal: 'equal',
  behind: 'behind',
  different: 'different',
  'not-asked': 'not compared with the service',
  'not-followed': 'left out by the settings',
};

/** `holds` are those that stood before anything was asked; `width`: columns of the screen. */
export function renderVerification(
  { mirror, datasets, trouble }: Verification,
  holds: readonly Hold[],
  width: number,
): string {
  return [
    ...(datasets.length === 0 ? [`The mirror ${mirror} holds no dataset.`] : [tableOf(datasets, width)]),
    ...section(
      'Differences',
      datasets.filter(({ differences }) => differences.length > 0).map(differencesText),
    ),
    ...holds.flatMap((one) => ['', tellHold(one)]),
    ...section('Not compared with the service', trouble === null ? [] : [troubleText(trouble)]),
    ...section(
      'No answer',
      datasets.flatMap(({ id, trouble: met }) =>
        met === null ? [] : `${printable(id)}: ${troubleText(met)}`,
      ),
    ),
    '',
    headline(datasets),
  ].join('\n');
}

function tableOf(datasets: readonly DatasetVerification[], width: number): string {
  const columns = [
    { title: 'dataset' },
    { title: 'version', align: 'right' as const },
    { title: 'newest', align: 'right' as const },
    { title: 'rows', align: 'right' as const },
    { title: 'result', wraps: true },
  ];
  const rows = datasets.map(({ id, version, newestVersion, rows: count, result }) => [
    id,
    version === null ? '' : String(version),
    newestVersion === null ? '' : String(newestVersion),
    count === null ? '' : formatCount(count),
    WORDS[result],
  ]);
  return renderTable(columns, rows, width);
}

/** What several differences have in common, the command that does away with them, is told once. */
function differencesText({ id, differences }: DatasetVerification): string {
  const remedies = [...new Set(differences.map(({ remedy }) => remedy))];
  return [
    ...differences.map(({ message }) => `${printable(id)}: ${printable(message)}`),
    ...remedies.map((remedy) => `→ ${printable(remedy)}`),
  ].join('\n  ');
}

function troubleText({ message, hint, links }: TroubleMet): string {
  return [
    printable(message),
    ...Object.entries(links).map(([name, url]) => `  ${printable(name)}: ${printable(url)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
  ].join('\n');
}

function headline(datasets: readonly DatasetVerification[]): string {
  const words = Object.entries(WORDS).flatMap(([result, told]) => {
    const { length } = datasets.filter((dataset) => dataset.result === result);
    return length === 0 ? [] : [`${formatCount(length)} ${told}`];
  });
  const total = `${formatCount(datasets.length)} ${datasets.length === 1 ? 'dataset' : 'datasets'}`;
  return words.length === 0 ? `${total}.` : `${total}: ${words.join(', ')}.`;
}

function section(title: string, texts: readonly string[]): readonly string[] {
  if (texts.length === 0) return [];
  return ['', `${title}:`, ...texts.map((text) => text.replaceAll(/^/gm, '  '))];
}
