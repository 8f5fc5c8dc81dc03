/** Formats results: a table for readers, JSON for programs. Pure. */

import Table from 'cli-table3';
import type { Size } from './case.ts';
import type { CaseResult } from './run-case.ts';
import type { JudgedGoal, SideSummary, Spread, Summary } from './statistics.ts';

export interface Machine {
  readonly cores: number;
  readonly memoryMegabytes: number;
  readonly platform: string;
  readonly node: string;
  readonly duckdb: string;
}

export interface Report {
  /** RFC 3339. */
  readonly measuredAt: string;
  readonly size: Size;
  /** Pairs that were asked for of each case. */
  readonly runs: number;
  /** Of the large dataset in the cases of PostgreSQL, where that was made smaller. */
  readonly rows?: number;
  readonly machine: Machine;
  readonly cases: readonly CaseResult[];
  readonly notRun: readonly NotRun[];
}

interface NotRun {
  readonly name: string;
  readonly why: string;
}

const HEAD = [
  'case',
  'runs',
  'feed-sync s',
  'reference s',
  'ratio',
  'peak MB',
  'CPU s',
  'CPU ratio',
  'reach',
];

/** Medians with the least and the most in brackets; feed-sync's number stands left of the reference's. */
export function reportTable({ cases, machine, size, rows, notRun }: Report): string {
  const table = new Table({ head: HEAD, style: { head: [], border: [] } });
  for (const { name, summary, goals, pairs } of cases) {
    const { subject, reference, ratio, cpuRatio } = summary;
    table.push([
      name,
      pairs.length,
      spreadText(subject.seconds),
      reference === null ? '' : spreadText(reference.seconds),
      ratio === null ? '' : spreadText(ratio),
      sides(subject, reference, ({ peakMegabytes }) => peakMegabytes.median.toFixed(0)),
      sides(subject, reference, ({ cpuSeconds }) => cpuSeconds.median.toFixed(2)),
      cpuRatio === null ? '' : spreadText(cpuRatio),
      goals.map(goalText).join('\n'),
    ]);
  }
  return [
    table.toString(),
    ...cases.map(({ name, what, summary }) => [`${name}: ${what}.`, ...countTexts(summary)].join('\n  ')),
    ...notRun.map(({ name, why }) => `${name} was NOT RUN: ${why}`),
    `Median (least–most). ${machineText(machine)}.`,
    ...(rows === undefined ? [] : [`With ${rows} rows in the large dataset of the cases of PostgreSQL.`]),
    ...(size === 'quick' ? ['These sizes show that it works; their numbers mean nothing.'] : []),
  ].join('\n');
}

function countTexts({ subject: { counts } }: Summary): readonly string[] {
  return Object.entries(counts).map(([name, count]) => `${name} ${spreadText(count)}`);
}

export function machineText({ cores, memoryMegabytes, node, duckdb }: Machine): string {
  return `${cores} cores, ${memoryMegabytes} MB, Node ${node}, DuckDB ${duckdb}`;
}

export function reportJson(report: Report): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

function spreadText({ median, least, most }: Spread): string {
  return `${median.toFixed(2)} (${least.toFixed(2)}–${most.toFixed(2)})`;
}

function sides(
  subject: SideSummary,
  reference: SideSummary | null,
  text: (side: SideSummary) => string,
): string {
  return reference === null ? text(subject) : `${text(subject)} / ${text(reference)}`;
}

function goalText({ measure, value, atMost, reached }: JudgedGoal): string {
  return `${measure} ${value.toFixed(2)} ${reached ? '≤' : 'is above'} ${atMost}`;
}
