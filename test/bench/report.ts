/** How results look: a table for people, JSON for programs. Pure. */

import Table from 'cli-table3';
import type { Size } from './case.ts';
import type { CaseResult } from './run-case.ts';
import type { JudgedGoal, SideSummary, Spread } from './statistics.ts';

export interface Report {
  /** RFC 3339. */
  readonly measuredAt: string;
  readonly size: Size;
  readonly runs: number;
  readonly machine: {
    readonly cores: number;
    readonly memoryMegabytes: number;
    readonly platform: string;
    readonly node: string;
    readonly duckdb: string;
  };
  readonly cases: readonly CaseResult[];
}

const HEAD = ['case', 'feed-sync s', 'raw DuckDB s', 'ratio', 'peak MB', 'CPU s', 'reach'];

/** Medians with the least and the most in brackets; feed-sync's number stands left of raw DuckDB's. */
export function reportTable({ cases, machine, runs, size }: Report): string {
  const table = new Table({ head: HEAD, style: { head: [], border: [] } });
  for (const { name, summary, goals } of cases) {
    const { subject, reference, ratio } = summary;
    table.push([
      name,
      spreadText(subject.seconds),
      reference === null ? '' : spreadText(reference.seconds),
      ratio === null ? '' : spreadText(ratio),
      sides(subject, reference, ({ peakMegabytes }) => peakMegabytes.median.toFixed(0)),
      sides(subject, reference, ({ cpuSeconds }) => cpuSeconds.median.toFixed(2)),
      goals.map(goalText).join('\n'),
    ]);
  }
  return [
    table.toString(),
    ...cases.map(({ name, what }) => `${name}: ${what}.`),
    `Median (least–most) of ${runs} pairs of runs. ${machineText(machine)}.`,
    ...(size === 'quick' ? ['These sizes show that it works; their numbers mean nothing.'] : []),
  ].join('\n');
}

function machineText({ cores, memoryMegabytes, node, duckdb }: Report['machine']): string {
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
