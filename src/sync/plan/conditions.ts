/**
 * What a dataset that nothing stands in the way of is in, seen from what it needs. Pure.
 *
 * What is found here is kept in order: what can be said without asking the service is said first, so that a table that
 * nothing is wanted of costs no call, nor does one that only a snapshot can help which nobody offers.
 */

import { present } from '../../lib/assert.ts';
import { confirmedAt, isConfirmed } from '../../model/absence.ts';
import { announcedVersion, announcedVersions } from '../../model/desired-state.ts';
import type { Version } from '../../model/records.ts';
import type { FailedBefore } from './content.ts';
import { type Need, needOf, needOfChanges, owesResync, pendingReloads } from './need.ts';
import {
  bestRoute,
  isSurelyBest,
  type Route,
  type RouteByLoad,
  routeByChanges,
  routeByLoad,
} from './paths.ts';
import {
  answeredAt,
  isAnswering,
  orphanReloads,
  owesWithdrawal,
  satisfiedAfter,
  type Wanting,
} from './reload-rules.ts';
import type { DifferingCounts, History, Offer, Plan, PlanInput } from './step.ts';
import { cutToLimits, headOf, type Terrain, type Walk, walk } from './version-chain.ts';
import {
  differingCounts,
  mayLackTable,
  namingOf,
  publishedAtOf,
  schemaNamed,
  schemaOfSnapshot,
  schemaVersionAt,
  standingOfOffer,
} from './versions.ts';

type Step<Kind extends Plan['kind']> = Omit<Plan & { kind: Kind }, 'kind'>;

/** When trying again helps at the earliest; null: nobody knows. */
type Until = Date | null;

/** What the step that follows from a situation is made of. */
export interface SituationsAtWork {
  'nothing-needed': null;
  'history-unread': Step<'read-history'>;
  /** Only a snapshot helps, or one may be the better way on, and what is offered was not read yet. */
  'offers-unread': null;
  /**
   * The table has a version that was withdrawn or restarted, or it owes a reload to a subscription that has dropped the
   * dataset since; and no subscription that contains it has asked for a reload since.
   */
  'reload-unasked': Step<'ask-reload'>;
  /** A version was announced that the list of versions has not named for so long that it is surely withdrawn. */
  'announced-withdrawn': Step<'void-announced'>;
  /** Only a snapshot helps, and no manifest that may answer lists the dataset. */
  'not-offered': Until;
  /** Only a snapshot helps, and those that are offered do not answer. */
  'offer-lags': Until;
  /** Only a snapshot helps, and the list of versions does not name those that are offered. */
  'offer-unlisted': Until;
  /** Only a snapshot helps, and the list of versions states another number of rows for the version that is offered. */
  'offer-differs': { readonly until: Until } & DifferingCounts;
  /** A snapshot is the best way on, or the only one. */
  'offer-answers': Step<'load'>;
  /** Only a snapshot helps, and what is offered failed before and is the same still. */
  'offer-failed-before': null;
  /** Changes are the best way on. */
  'changes-lead-on': Step<'apply'>;
  /** Changes are the best way on, those of the next version failed before, and no snapshot of a later one is offered. */
  'changes-failed-before': null;
  /** The table is at the end of the list of versions, more was announced, and no manifest offers it. */
  'list-lags': Until;
}

type SituationAtWork = {
  [Kind in keyof SituationsAtWork]: { readonly kind: Kind; readonly data: SituationsAtWork[Kind] };
}[keyof SituationsAtWork];

const OFFERS_UNREAD: SituationAtWork = { kind: 'offers-unread', data: null };

/** @throws ContractViolationError where the only way on is over a version whose schema the service does not list. */
export function situationAtWork(input: PlanInput, failedBefore: FailedBefore): SituationAtWork {
  const { held, want, history } = input;
  const newerThan = historyNeeded({ ...input, offers: input.offers ?? [] });
  const unread: SituationAtWork = { kind: 'history-unread', data: { newerThan } };
  if (history !== null && !reachesBackTo(newerThan, history)) return unread;
  if (orphanReloads(held, want).length > 0) {
    return reloadUnasked(false, 'a subscription that left asked for it');
  }
  const need = needOf(held, want, history);
  if (need === 'nothing') {
    return situationOfVersions(input) ?? { kind: 'nothing-needed', data: null };
  }
  const unoffered = isSnapshotNeeded(need) ? situationUnoffered(input) : null;
  if (unoffered !== null) return unoffered;
  if (history === null || need === 'look') return unread;
  return situationOfVersions(input) ?? situationKnown(need, { ...input, history }, failedBefore);
}

/** A snapshot is needed. Null: some are offered, or the table may go on otherwise until one is. */
function situationUnoffered({ held, want, history, offers }: PlanInput): SituationAtWork | null {
  if (offers === null) return OFFERS_UNREAD;
  const isAllThatIsNeeded = held === null || needOfChanges(held, want, history) === 'nothing';
  return offers.length === 0 && isAllThatIsNeeded ? { kind: 'not-offered', data: null } : null;
}

/** Something is needed, and what was published is known. */
function situationKnown(
  need: Need,
  input: PlanInput & { readonly history: History },
  failedBefore: FailedBefore,
): SituationAtWork {
  const { held, history } = input;
  const offered = { ...input, offers: input.offers ?? [] };
  const isUnread = (offer: Offer): boolean => standingOfOffer(offer, history) === 'unread';
  if (offered.offers.some(isUnread)) {
    return { kind: 'history-unread', data: { newerThan: historyNeeded(offered) } };
  }
  const found = survey(offered, history);
  if (!isSnapshotNeeded(need) && input.offers === null) {
    const isLedByChanges = isSurelyBest(found.byChanges, found.walked, held);
    if (!isLedByChanges || badOnTheWay(found, failedBefore) !== null) return OFFERS_UNREAD;
  }
  return situationBehind(found, failedBefore);
}

function reloadUnasked(isWithdrawal: boolean, why: string): SituationAtWork {
  return { kind: 'reload-unasked', data: { isWithdrawal, why } };
}

/** What the list of versions says of the table's version, and of those that were announced. Null: nothing that matters. */
function situationOfVersions({ held, want, history, absentSince }: PlanInput): SituationAtWork | null {
  if (history === null) return null;
  const isGone = (version: number): boolean => {
    const since = absentSince.get(version);
    const subject = { kind: 'version', datasetId: want.datasetId, version } as const;
    return since !== undefined && isConfirmed({ subject, since }, history.readAt);
  };
  if (held !== null && !owesWithdrawal(held, want)) {
    const naming = namingOf(held, history);
    if (naming === 'another') return reloadUnasked(true, `version ${held.version} was published anew`);
    if (naming === 'absent' && isGone(held.version)) {
      return reloadUnasked(true, `version ${held.version} was withdrawn`);
    }
  }
  const announced = announcedVersion(want);
  const head = headOf(history);
  if (announced === null || head === null) return null;
  const expected = announcedVersions(want).filter((version) => !isGone(version));
  const above = Math.max(head.version, ...expected);
  return announced <= above ? null : { kind: 'announced-withdrawn', data: { above } };
}

function isSnapshotNeeded(need: Need): boolean {
  return need === 'table' || need === 'reload' || need === 'resync';
}

/** What is known, with the offers as far as they were read. */
type Offered = PlanInput & { readonly offers: readonly Offer[] };

/**
 * Versions from the table's own on (its record says which schema it should have), and from what may be loaded instead,
 * where that may be older; all of them where the table's own may be absent.
 */
function historyNeeded({ held, want, offers, history }: Offered): number | null {
  if (held !== null && history !== null && mayLackTable(held, history)) return null;
  const mayGoBack = held === null || pendingReloads(held, want).length > 0;
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

/** All ways on, and what decides between them. */
interface Survey {
  readonly input: Offered;
  readonly terrain: Terrain;
  /** For which a snapshot has to be loaded. */
  readonly demands: readonly Wanting[];
  /** What a snapshot may be loaded for as well as changes may lead there. Null: nothing. */
  readonly wish: Wanting | null;
  /** Along the changes, from the table on. Null: only a snapshot helps. */
  readonly walked: Walk | null;
  readonly byChanges: Route | null;
  /** Those that answer a demand, and those that answer the wish. */
  readonly demanded: readonly RouteByLoad[];
  readonly wished: readonly RouteByLoad[];
}

function survey(input: Offered, history: History): Survey {
  const { held, want, offers, unusable, schemaChanges } = input;
  const terrain = { history, unusable, schemaChanges };
  const demands = demandsOf(input);
  const ofChanges = held === null ? 'nothing' : needOfChanges(held, want, history);
  const wish = ofChanges === 'version' || ofChanges === 'schema' ? ofChanges : null;
  // What has to be replaced is not trusted: changes may follow on other rows than the table has.
  const mayChange = wish === 'version' && pendingReloads(held, want).length === 0;
  const walked = held !== null && mayChange ? walk(held, terrain) : null;
  const routes = new Map(offers.map((offer) => [offer, routeByLoad(offer, input, terrain)]));
  const routesFor = (needs: readonly Wanting[]): readonly RouteByLoad[] =>
    offers
      .filter((offer) => needs.some((need) => isAnswering(need, offer, { held, want, history })))
      .map((offer) => present(routes.get(offer), 'every offer has a route'));
  return {
    input,
    terrain,
    demands,
    wish,
    walked,
    byChanges: walked === null || held === null ? null : routeByChanges(held, walked),
    demanded: routesFor(demands),
    wished: wish === null ? [] : routesFor([wish]),
  };
}

function demandsOf({ held, want }: PlanInput): readonly Wanting[] {
  if (held === null) return ['table'];
  return [
    ...(pendingReloads(held, want).length > 0 ? (['reload'] as const) : []),
    ...(owesResync(held, want) ? (['resync'] as const) : []),
  ];
}

/**
 * What a snapshot has to be loaded for comes first. Until one is there a table that owes an operator's resync goes on by
 * changes; one that owes a reload goes on by the snapshot of a later version alone.
 */
function situationBehind(found: Survey, failedBefore: FailedBefore): SituationAtWork {
  const { byChanges, demanded, wished, input, walked, terrain } = found;
  const isFresh = ({ entry }: Offer): boolean =>
    !failedBefore.snapshot(entry, publishedAtOf(entry.version, terrain.history));
  const fresh = (routes: readonly RouteByLoad[]): readonly RouteByLoad[] =>
    routes.filter(({ schema, offer }) => schema !== null && isFresh(offer));
  const best = bestRoute(fresh(demanded));
  if (best !== null) return offerAnswers(best, whyDemanded(found), found);
  const next = bestRoute([...(byChanges === null ? [] : [byChanges]), ...fresh(wished)]);
  if (next?.kind === 'load') return offerAnswers(next, whyWished(next, found), found);
  if (next?.kind === 'changes') {
    const bad = badOnTheWay(found, failedBefore);
    return bad === null ? changesLeadOn(found, null) : aroundBad(bad, fresh(wished), found);
  }
  throwViolation(found);
  if (demanded.length + wished.length > 0) return { kind: 'offer-failed-before', data: null };
  if (found.demands.length === 0 && walked !== null && walked.stop === null) {
    return { kind: 'list-lags', data: untilVoid(input) };
  }
  return nothingAnswers(found);
}

/** The list of versions need not have been read back to an entry that is older than the table and no newer than the list. */
function nothingAnswers({ input, terrain }: Survey): SituationAtWork {
  const { offers, held } = input;
  const until = untilAnswered(input, terrain.history);
  if (offers.length === 0) return { kind: 'not-offered', data: until };
  const unread = Math.min(held?.version ?? 0, headOf(terrain.history)?.version ?? 0);
  const isListed = (offer: Offer): boolean =>
    offer.entry.version < unread || standingOfOffer(offer, terrain.history) === 'named';
  if (offers.some(isListed)) return { kind: 'offer-lags', data: until };
  const [differing] = offers.flatMap(({ entry }) => differingCounts(entry, terrain.history) ?? []);
  if (differing === undefined) return { kind: 'offer-unlisted', data: until };
  return { kind: 'offer-differs', data: { until, ...differing } };
}

function untilAnswered({ held, want, offers, manifestLagMs }: Offered, history: History): Until {
  return answeredAt({ held, want, history }, offers, manifestLagMs);
}

/** What was announced and is absent from the list is void once that is sure. */
function untilVoid({ want, absentSince }: Offered): Until {
  const version = announcedVersion(want);
  const since = version === null ? undefined : absentSince.get(version);
  if (version === null || since === undefined) return null;
  return confirmedAt({ subject: { kind: 'version', datasetId: want.datasetId, version }, since });
}

/** Where a schema that the service does not list is all that stands in the way, it is the service's fault. */
function throwViolation({ terrain, walked, demanded, wished }: Survey): void {
  const unlisted = [...demanded, ...wished].find(({ schema }) => schema === null);
  if (unlisted !== undefined) schemaOfSnapshot(unlisted.offer.entry, terrain.history);
  if (walked?.stop?.violation) throw walked.stop.violation;
}

function offerAnswers({ offer }: RouteByLoad, why: string, { input, terrain }: Survey): SituationAtWork {
  const { held, want } = input;
  const reloads = satisfiedAfter(offer, { held, want, history: terrain.history });
  return { kind: 'offer-answers', data: { offer, reloads, why } };
}

/** The first version whose changes would be applied next and failed before. */
function badOnTheWay({ walked }: Survey, failedBefore: FailedBefore): Version | null {
  return cutToLimits(walked?.path ?? []).find(failedBefore.changes) ?? null;
}

/**
 * The snapshot of a later version is other content: it leads around changes that failed. Without one the table moves to the
 * version before them.
 */
function aroundBad(bad: Version, loads: readonly RouteByLoad[], found: Survey): SituationAtWork {
  const around = bestRoute(loads.filter(({ offer: { entry } }) => entry.version > bad.version));
  if (around !== null) {
    return offerAnswers(around, `the changes of version ${bad.version} cannot be mirrored`, found);
  }
  const isFirst = present(found.walked, 'changes lead along a walk').path[0] === bad;
  return isFirst ? { kind: 'changes-failed-before', data: null } : changesLeadOn(found, bad);
}

/** `before`: the version that the changes do not reach; null: none. */
function changesLeadOn({ input, terrain, walked }: Survey, before: Version | null): SituationAtWork {
  const path = cutToLimits(present(walked, 'changes lead along a walk').path);
  const versions = before === null ? path : path.slice(0, path.indexOf(before));
  const last = present(versions.at(-1), 'a path that leads on has a last version');
  const named = present(last.schemaVersion, 'a version without a schema stops a walk');
  const schema = schemaNamed(named, last, terrain.history);
  const addsColumns = named !== input.held?.schemaVersion;
  return { kind: 'changes-lead-on', data: { versions, schema, addsColumns } };
}

function whyDemanded({ input: { held, want }, demands }: Survey): string {
  if (demands.includes('table')) return 'there is no table yet';
  if (!demands.includes('reload')) return 'a person asked for it';
  const asked = pendingReloads(held, want).map(
    ({ subscriptionId, eventNumber }) => `${subscriptionId} at event ${eventNumber}`,
  );
  return `the service asked for it (${[...new Set(asked)].join(' and ')})`;
}

function whyWished({ offer: { entry } }: RouteByLoad, found: Survey): string {
  const { held } = found.input;
  if (found.wish === 'schema') {
    const wanted = schemaVersionAt(held?.version ?? entry.version, found.terrain.history);
    return `the table has schema ${held?.schemaVersion ?? 'unknown'}, and its version has schema ${wanted}`;
  }
  if (found.walked === null) return 'the table takes no changes until its reload is answered';
  const { path, stop } = found.walked;
  const end = path.at(-1)?.version ?? held?.version ?? 0;
  if (entry.version <= end) return `it is less work than the changes of ${path.length} versions`;
  return stop?.why ?? `the list of versions does not reach version ${entry.version} yet`;
}
