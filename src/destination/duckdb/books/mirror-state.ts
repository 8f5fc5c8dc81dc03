/** What the mirror holds, read from its bookkeeping, and the names it has given. */

import { ConfigurationError } from '../../../model/errors.ts';
import { tableNameFor } from '../../../model/naming.ts';
import type { Enrolment, Held } from '../../destination.ts';
import type { Engine } from '../engine/engine.ts';
import { text, tuple } from '../engine/quoting.ts';
import { textAt } from '../engine/rows.ts';
import { readProgress } from '../progress/read-progress.ts';
import { isKnownFormat, migrate, storesProgress } from './formats.ts';
import { readHeldDatasets } from './held.ts';
import {
  book,
  createSchema,
  deleteMeta,
  FORMAT_VERSION,
  forgetSubscription,
  insertMeta,
  META_FORMAT_VERSION,
  META_SERVICE_ORIGIN,
  META_SUBSCRIPTION_ID,
  selectMeta,
  selectSchema,
  selectTableNames,
} from './mirror-schema.ts';
import { readRetired } from './read-retired.ts';

export const EMPTY: Held = { service: null, datasets: new Map(), progress: null, retired: [] };

/** What is held by the attached mirror. @throws ConfigurationError where a newer program made it. */
export async function readHeld(engine: Engine, path: string): Promise<Held> {
  if (!(await hasSchema(engine))) return EMPTY;
  const { service, format } = await readMeta(engine, path);
  return {
    service,
    datasets: await readHeldDatasets(engine, null, format),
    progress: storesProgress(format) ? await readProgress(engine) : null,
    retired: await readRetired(engine, format),
  };
}

/**
 * Makes the catalog in a new mirror, and migrates that of an earlier format: called before anything else is
 * written to the catalog. Resolves to whether the mirror is new.
 * @throws ConfigurationError where a newer program made it.
 */
export async function ensureSchema(engine: Engine, path: string): Promise<boolean> {
  if (await hasSchema(engine)) {
    const { format } = await readMeta(engine, path);
    for (const statement of migrate(format)) await engine.run(statement);
    return false;
  }
  for (const statement of createSchema()) await engine.run(statement);
  return true;
}

/** Whether everything in the enrolment is in the mirror already. */
export async function isEnrolled(engine: Engine, path: string, enrolment: Enrolment): Promise<boolean> {
  if (!(await hasSchema(engine))) return false;
  const { service } = await readMeta(engine, path);
  const names = await readNames(engine);
  return (
    service?.origin === enrolment.origin &&
    enrolment.subscriptionIds.every((id) => service.subscriptionIds.includes(id)) &&
    !givenUp(enrolment).some((id) => service.subscriptionIds.includes(id)) &&
    nameable(enrolment.datasetIds).every((id) => names.has(id))
  );
}

/** Records the service, forgets what was given up, and gives names to the datasets that have none. */
export async function writeEnrolment(engine: Engine, path: string, enrolment: Enrolment): Promise<void> {
  const { service } = await readMeta(engine, path);
  if (service?.origin !== enrolment.origin) {
    await engine.run(deleteMeta(META_SERVICE_ORIGIN));
    await engine.run(insertMeta(META_SERVICE_ORIGIN, enrolment.origin));
  }
  const seen = new Set(service?.subscriptionIds);
  for (const id of new Set(enrolment.subscriptionIds)) {
    if (!seen.has(id)) await engine.run(insertMeta(META_SUBSCRIPTION_ID, id));
  }
  for (const id of givenUp(enrolment).filter((each) => seen.has(each))) {
    for (const statement of forgetSubscription(id)) await engine.run(statement);
  }
  await giveNames(engine, enrolment.datasetIds);
}

/** What was given up and is followed nevertheless has come back. */
function givenUp({ forgottenSubscriptionIds, subscriptionIds }: Enrolment): readonly string[] {
  return forgottenSubscriptionIds.filter((id) => !subscriptionIds.includes(id));
}

/** The table names of the datasets, given now to those that have none, in the order of the list. */
export async function giveNames(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map(await readNames(engine));
  const missing = nameable(datasetIds).filter((id) => !names.has(id));
  if (missing.length === 0) return names;
  const taken = new Set(names.values());
  for (const row of await engine.rows(selectTableNames('main'))) taken.add(textAt(row, 0));
  const given: string[] = [];
  for (const id of missing) {
    if (names.has(id)) continue;
    const name = tableNameFor(id, taken);
    names.set(id, name);
    taken.add(name);
    given.push(tuple([text(id), text(name)]));
  }
  await engine.run(`INSERT INTO ${book('names')} VALUES ${given.join(', ')}`);
  return names;
}

async function readNames(engine: Engine): Promise<ReadonlyMap<string, string>> {
  const rows = await engine.rows(`SELECT dataset_id, table_name FROM ${book('names')}`);
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}

/** Whether the attached database is a mirror, or is to become one. */
export async function hasSchema(engine: Engine): Promise<boolean> {
  return (await engine.rows(selectSchema())).length > 0;
}

/** Null where the attached database is no mirror yet. @throws ConfigurationError where a newer program made it. */
export async function readFormat(engine: Engine, path: string): Promise<number | null> {
  return (await hasSchema(engine)) ? (await readMeta(engine, path)).format : null;
}

interface Meta {
  readonly format: number;
  readonly service: Held['service'];
}

async function readMeta(engine: Engine, path: string): Promise<Meta> {
  const entries = (await engine.rows(selectMeta())).map((row) => [textAt(row, 0), textAt(row, 1)] as const);
  const all = (key: string) => entries.filter((entry) => entry[0] === key).map((entry) => entry[1]);
  const format = Number(all(META_FORMAT_VERSION)[0] ?? Number.NaN);
  if (!isKnownFormat(format)) {
    throw new ConfigurationError(
      `The mirror ${path} has the format ${format}; this program knows the format ${FORMAT_VERSION} and none that is newer.`,
      { hint: 'Use the newer version of feed-sync that wrote it, or set destination.path to another file.' },
    );
  }
  const origin = all(META_SERVICE_ORIGIN)[0];
  if (origin === undefined) return { format, service: null };
  return { format, service: { origin, subscriptionIds: all(META_SUBSCRIPTION_ID) } };
}

/** A NUL ends a name for DuckDB: such a dataset gets no name, and fails when it is prepared. */
function nameable(datasetIds: readonly string[]): readonly string[] {
  return datasetIds.filter((id) => !id.includes('\0'));
}
