/**
 * What a dataset that nothing stands in the way of is in, seen from what it needs. Pure.
 *
 * What is found here is kept in order: what can be said without asking the service is said first, so that a table that
 * nothing is wanted of costs no call, nor does one that only a snapshot can help which nobody offers.
 */

import { present } from '../../lib/assert.ts';
import type { Version } from '../../model/version.ts';
import type { FailedBefore } from './content.ts';
import type { History } from './history.ts';
import { type Need, needOf, owesLook, pendingReloads } from './need.ts';
import { answeringOffers, askedOffers, reloadsOfAnew, reloadsSatisfiedBy } from './offer-rules.ts';
import {
  bestRoute,
  isSurelyBest,
  type Route,
  type RouteByLoad,
  routeByChanges,
  routeByLoad,
} from './routes.ts';
import { schemaNamed, schemaOfSnapshot, schemaVersionAt } from './schemas.ts';
import type { Offer, Plan, PlanInput } from './step.ts';
import { cutToLimits, isListed, type Terrain, type Walk, walk } from './walk.ts';

type Step<Kind extends Plan['kind']> = Omit<Plan & { kind: Kind }, 'kind'>;

/** What the step that follows from a situation is made of. */
export interface SituationsAtWork {
  'nothing-needed': null;
  'history-unread': Step<'read-history'>;
  /** Only a snapshot helps, or one may be the better way on, and what is offered was not read yet. */
  'offers-unread': null;
  /** The table has a version that the service lists no more, and every manifest lists a lower one, or another of that number. */
  'begun-anew': Step<'want-reload'>;
  /** Only a snapshot helps, and no manifest that may answer lists the dataset. */
  'not-offered': null;
  /** Only a snapshot helps, and those that are offered do not answer. */
  'offer-lags': null;
  /** A snapshot is the best way on, or the only one. */
  'offer-answers': Step<'load'>;
  /** Only a snapshot helps, and what is offered failed before and is the same still. */
  'offer-failed-before': null;
  /** Changes are the best way on. */
  'changes-lead-on': Step<'apply'>;
  /** Changes are the best way on, those of a version on it failed before, and no snapshot of a later one is offered. */
  'changes-failed-before': null;
  /** The table is at the end of the list of versions, more was announced, and no manifest offers it. */
  'list-lags': null;
}

export type SituationAtWork = {
  [Kind in keyof SituationsAtWork]: { readonly kind: Kind; readonly data: SituationsAtWork[Kind] };
}[keyof SituationsAtWork];

/** @throws ContractViolationError where the only way on is over a version whose schema the service does not list. */
export function situationAtWork(input: PlanInput, failedBefore: FailedBefore): SituationAtWork {
  const offered = { ...input, offers: input.offers ?? [] };
  const newerThan = historyNeeded(offered);
  const unread = { kind: 'history-unread', data: { newerThan } } as const;
  const { history, offers } = input;
  if (history !== null && !reachesBackTo(newerThan, history)) return unread;
  const need = needOf(input.held, input.want, history);
  if (need === 'nothing') return situationAtHead(input);
  if (isSnapshotNeeded(need)) {
    if (offers === null) return { kind: 'offers-unread', data: null };
    if (askedOffers(offered).length === 0) return { kind: 'not-offered', data: null };
  }
  if (history === null || need === 'look') return unread;
  const found = survey(need, offered, history);
  const isLedByChanges = isSurelyBest(found.byChanges, found.walked, input.held);
  if (offers === null && (!isLedByChanges || badOnTheWay(found, failedBefore) !== null)) {
    return { kind: 'offers-unread', data: null };
  }
  return situationBehind(need, found, failedBefore);
}

/** Where a look is owed, a table that the list of versions does not name may be left of versions that have begun anew. */
function situationAtHead(input: PlanInput): SituationAtWork {
  const { held, want, history, offers } = input;
  const isOpen = history !== null && owesLook(want) && held !== null && !isListed(held, history);
  if (isOpen && offers === null) return { kind: 'offers-unread', data: null };
  const reloads = isOpen ? reloadsOfAnew({ ...input, held, history, offers: offers ?? [] }) : [];
  return reloads.length === 0
    ? { kind: 'nothing-needed', data: null }
    : { kind: 'begun-anew', data: { reloads } };
}

function isSnapshotNeeded(need: Need): boolean {
  return need === 'table' || need === 'reload' || need === 'resync';
}

/** What is known, with the offers as far as they were read. */
type Offered = PlanInput & { readonly offers: readonly Offer[] };

/**
 * Versions from the table's own on (its record says which schema it should have), and from what may be loaded instead,
 * where that may be older.
 */
function historyNeeded({ held, want, offers }: Offered): number | null {
  const mayGoBack = held === null || pendingReloads(held, want).size > 0;
  const from = [
    ...(held === null ? [] : [held.version]),
    ...(mayGoBack ? offers.map(({ entry }) => entry.version) : []),
  ];
  const oldest = from.length === 0 ? 0 : Math.min(...from);
  return oldest < 1 ? null : oldest - 1;
}

function reachesBackTo(newerThan: number | null, history: History): boolean {
  return history.newerThan === null || (newerThan !== null && history.newerThan <= newerThan);
}

type Behind = Exclude<Need, 'look' | 'nothing'>;

/** All ways on, and what decides between them. */
interface Survey {
  readonly input: Offered;
  readonly terrain: Terrain;
  /** Along the changes, from the table on. Null: only a snapshot helps. */
  readonly walked: Walk | null;
  readonly byChanges: Route | null;
  readonly byLoads: readonly RouteByLoad[];
}

function survey(need: Behind, input: Offered, history: History): Survey {
  const { held, offers, unusable, schemaChanges } = input;
  const terrain = { history, unusable, schemaChanges };
  const walked = need === 'version' ? walk(present(held, 'only a table is behind'), terrain) : null;
  const routes = new Map(offers.map((offer) => [offer, routeByLoad(offer, held, terrain)]));
  const routeOf = (offer: (typeof offers)[number]) => present(routes.get(offer), 'every offer has a route');
  return {
    input,
    terrain,
    walked,
    byChanges: walked === null || held === null ? null : routeByChanges(held, walked),
    byLoads: answeringOffers(need, input, history, (offer) => routeOf(offer).reach).map(routeOf),
  };
}

function situationBehind(need: Behind, found: Survey, failedBefore: FailedBefore): SituationAtWork {
  const { input, walked, byChanges, byLoads } = found;
  const loads = byLoads.filter(({ schema, offer }) => schema !== null && !failedBefore.snapshot(offer.entry));
  const best = bestRoute([...(byChanges === null ? [] : [byChanges]), ...loads]);
  if (best?.kind === 'load') return offerAnswers(best, whyLoad(need, best, found), input);
  if (best?.kind === 'changes') {
    const bad = badOnTheWay(found, failedBefore);
    return bad === null ? changesLeadOn(found) : aroundBad(bad, loads, input);
  }
  throwViolation(found);
  if (byLoads.length > 0) return { kind: 'offer-failed-before', data: null };
  if (walked !== null && walked.stop === null) return { kind: 'list-lags', data: null };
  return { kind: askedOffers(input).length === 0 ? 'not-offered' : 'offer-lags', data: null };
}

/** Where a schema that the service does not list is all that stands in the way, it is the service's fault. */
function throwViolation({ terrain, walked, byLoads }: Survey): void {
  const unlisted = byLoads.find(({ schema }) => schema === null);
  if (unlisted !== undefined) schemaOfSnapshot(unlisted.offer.entry, terrain.history);
  if (walked?.stop?.violation) throw walked.stop.violation;
}

function offerAnswers({ offer }: RouteByLoad, why: string, input: Offered): SituationAtWork {
  return { kind: 'offer-answers', data: { offer, reloads: reloadsSatisfiedBy(offer, input), why } };
}

/** The last version whose changes would be applied next and failed before. */
function badOnTheWay({ walked }: Survey, failedBefore: FailedBefore): Version | null {
  return cutToLimits(walked?.path ?? []).findLast(failedBefore.changes) ?? null;
}

/** The snapshot of a later version is other content: it leads around changes that failed. */
function aroundBad({ version }: Version, loads: readonly RouteByLoad[], input: Offered): SituationAtWork {
  const around = bestRoute(loads.filter(({ offer: { entry } }) => entry.version > version));
  if (around === null) return { kind: 'changes-failed-before', data: null };
  return offerAnswers(around, `the changes of version ${version} cannot be mirrored`, input);
}

function changesLeadOn({ input, terrain, walked }: Survey): SituationAtWork {
  const versions = cutToLimits(present(walked, 'changes lead along a walk').path);
  const last = present(versions.at(-1), 'a path that leads on has a last version');
  const named = present(last.schemaVersion, 'a version without a schema stops a walk');
  const schema = schemaNamed(named, last, terrain.history);
  const addsColumns = named !== input.held?.schemaVersion;
  return { kind: 'changes-lead-on', data: { versions, schema, addsColumns } };
}

function whyLoad(need: Behind, { offer: { entry } }: RouteByLoad, found: Survey): string {
  const { held, want } = found.input;
  switch (need) {
    case 'table':
      return 'there is no table yet';
    case 'reload': {
      const asked = [...pendingReloads(held, want)].map(([id, number]) => `${id} at event ${number}`);
      return `the service asked for it (${asked.join(' and ')})`;
    }
    case 'resync':
      return 'a person asked for it';
    case 'schema': {
      const wanted = schemaVersionAt(held?.version ?? entry.version, found.terrain.history);
      return `the table has schema ${held?.schemaVersion ?? 'unknown'}, and its version has schema ${wanted}`;
    }
    case 'version': {
      const { path, stop } = present(found.walked, 'a way to a version was looked for along the changes');
      const end = path.at(-1)?.version ?? held?.version ?? 0;
      if (entry.version <= end) return `it is less work than the changes of ${path.length} versions`;
      return stop?.why ?? `the list of versions does not reach version ${entry.version} yet`;
    }
  }
}
