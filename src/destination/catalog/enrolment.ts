/** The rows that an enrolment writes into the catalog: the service, forgotten subscriptions, the names of tables. Pure. */

import { tableNameFor } from '../../model/naming.ts';
import type { Enrolment, ObservedState } from '../destination.ts';
import { META_SERVICE_ORIGIN, META_SUBSCRIPTION_ID, OF_SUBSCRIPTIONS } from './tables.ts';
import { type CatalogWrite, deleteRows, insertRows } from './writes.ts';

interface Enrolled {
  readonly service: ObservedState['service'];
  /** By dataset id. */
  readonly names: ReadonlyMap<string, string>;
}

/** Returns whether the catalog already contains the whole enrolment. */
export function hasEnrolment({ service, names }: Enrolled, enrolment: Enrolment): boolean {
  return (
    service?.origin === enrolment.origin &&
    enrolment.subscriptionIds.every((id) => service.subscriptionIds.includes(id)) &&
    !givenUp(enrolment).some((id) => service.subscriptionIds.includes(id)) &&
    lackNames(names, enrolment.datasetIds).length === 0
  );
}

/** Records the service and removes forgotten subscriptions, with their progress and the reloads made for them. */
export function serviceWrites(
  service: ObservedState['service'],
  enrolment: Enrolment,
): readonly CatalogWrite[] {
  const { origin, subscriptionIds } = enrolment;
  const seen = new Set(service?.subscriptionIds);
  const added = [...new Set(subscriptionIds)].filter((id) => !seen.has(id));
  const gone = givenUp(enrolment).filter((id) => seen.has(id));
  return [
    ...(service?.origin === origin
      ? []
      : [
          deleteRows('meta', ['key'], [[META_SERVICE_ORIGIN]]),
          insertRows('meta', [[META_SERVICE_ORIGIN, origin]]),
        ]),
    insertRows(
      'meta',
      added.map((id) => [META_SUBSCRIPTION_ID, id]),
    ),
    deleteRows(
      'meta',
      ['key', 'value'],
      gone.map((id) => [META_SUBSCRIPTION_ID, id]),
    ),
    ...OF_SUBSCRIPTIONS.map((table) =>
      deleteRows(
        table,
        ['subscription_id'],
        gone.map((id) => [id]),
      ),
    ),
  ];
}

/** A forgotten subscription that is followed again stays. */
function givenUp({ forgottenSubscriptionIds, subscriptionIds }: Enrolment): readonly string[] {
  return forgottenSubscriptionIds.filter((id) => !subscriptionIds.includes(id));
}

/**
 * Returns the datasets without a name, in order. No database can hold a name with a NUL: such a dataset gets none, and its
 * validation fails.
 */
export function lackNames(
  names: ReadonlyMap<string, string>,
  datasetIds: readonly string[],
): readonly string[] {
  return datasetIds.filter((id) => !id.includes('\0') && !names.has(id));
}

/** Returns names for the datasets that lack one, in order. `existing` are the lower-case names of all tables and views. */
export function newNames(
  names: ReadonlyMap<string, string>,
  datasetIds: readonly string[],
  existing: readonly string[],
  maxBytes?: number,
): ReadonlyMap<string, string> {
  const taken = new Set([...names.values(), ...existing]);
  const given = new Map<string, string>();
  for (const id of new Set(lackNames(names, datasetIds))) {
    const name = tableNameFor(id, taken, maxBytes);
    given.set(id, name);
    taken.add(name);
  }
  return given;
}
