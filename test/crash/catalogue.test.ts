/** The catalogue of kills is whole: every durable effect of the sources has a case, and the README of this folder says so. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import * as history from '../../src/destination/duckdb/past/history.ts';
import { present } from '../../src/lib/assert.ts';
import { durableEffects } from '../support/durable-names.ts';
import { projectRoot, sourceFiles } from '../support/source-tree.ts';
import {
  CATALOGUE,
  catalogueTable,
  KILLED_COMMITS,
  KILLED_STEPS_OF_LOGS,
  namesOf,
  occurrencesOf,
} from './catalogue.ts';
import { killPointsIn, killsOf } from './kills.ts';
import { SCENARIOS } from './scenarios/all.ts';

/** Killed beside its server by `postgres.slow`. */
const KILLED_ELSEWHERE = ['destination.commit-postgres'];

const names = durableEffects(await sourceFiles('src'))
  .map(({ name }) => name)
  .filter((name) => !KILLED_ELSEWHERE.includes(name));

/** The functions of `history.ts` that read, or say how to. */
const READS = [
  'readLogs',
  'typedLogColumns',
  'namesInHistory',
  'insideMirror',
  'asOfTime',
  'selectStateAfter',
  'earliestOf',
];

/** What a kill has to be shown in, wherever a name occurs there. */
const EVERY_NAME = ['load', 'apply', 'alter', 'retire (archive)', 'resync', '410', 'publish'];

describe('F01 the catalogue of kills', () => {
  it('lists every durable effect of the sources, and no other', () => {
    expect(Object.keys(CATALOGUE)).toEqual(names.toSorted());
  });

  it('lists every scenario, and kills the most important ones at every effect', () => {
    const used = Object.values(CATALOGUE).flatMap((entry) =>
      occurrencesOf(entry).map(({ scenario }) => scenario),
    );
    expect(new Set(used)).toEqual(new Set(SCENARIOS.map(({ name }) => name)));
    const everyName = SCENARIOS.filter(({ killedAt }) => killedAt === 'every name').map(({ name }) => name);
    expect(everyName.toSorted()).toEqual(EVERY_NAME.toSorted());
    expect(namesOf('load')).toContain('destination.commit');
  });

  it('kills a COMMIT of every kind, and every step of an undo log', () => {
    const killed = new Set(
      ['destination.commit', 'destination.forget-past'].flatMap((name) =>
        occurrencesOf(present(CATALOGUE[name], 'it is in the catalogue')).map(({ scenario }) => scenario),
      ),
    );
    const scenarios = [...Object.values(KILLED_COMMITS), ...Object.values(KILLED_STEPS_OF_LOGS)];
    expect(scenarios.filter((scenario) => !killed.has(scenario))).toEqual([]);
    const steps = Object.keys(history).filter((name) => !READS.includes(name));
    expect(Object.keys(KILLED_STEPS_OF_LOGS).toSorted()).toEqual(steps.toSorted());
  });

  it('equals the table of its README', () => {
    const readme = readFileSync(join(projectRoot, 'test/crash/README.md'), 'utf8');
    const [, section = ''] = readme.split('\n## Kill names\n');
    const table = section.split('\n').filter((line) => line.startsWith('|'));
    expect(table.slice(0, catalogueTable().length)).toEqual(catalogueTable());
  });
});

describe('the kills of a scenario', () => {
  const record = ['before a', 'before b', 'after b', 'after a', 'before b', 'after b', 'before b', ''].join(
    '\n',
  );

  it('kills at the first and the last occurrence of every recorded effect', () => {
    expect(killsOf(killPointsIn(record), () => true)).toEqual([
      'before a 1',
      'before b 1',
      'before b 3',
      'after b 1',
      'after b 2',
      'after a 1',
    ]);
  });

  it('kills only at the effects that are chosen', () => {
    expect(killsOf(killPointsIn(record), (name) => name === 'a')).toEqual(['before a 1', 'after a 1']);
  });
});
