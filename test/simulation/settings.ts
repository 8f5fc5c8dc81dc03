/** What a history is played with: how the service is, what is subscribed to, and what the user has chosen. */

import type { DatasetKind } from '../../fixtures/source/generate.ts';
import type { Random } from '../../fixtures/source/random.ts';

export interface Settings {
  readonly schemaChanges: 'reload' | 'alter';
  readonly removedDatasets: 'archive' | 'drop' | 'keep';
  readonly manifest: 'subscription' | 'dataset';
  /** Whether a manifest says how far it goes; one of a single dataset never does. */
  readonly manifestLastEventId: boolean;
  /** Whether a subscription's record names its newest event. */
  readonly recordLastEventId: boolean;
  /** Whether manifests state the digests of files. */
  readonly sha256: boolean;
  /** How a position that the log does not have is answered. */
  readonly unknownPosition: 'taken' | 'expired';
  /** Events in a page of a log. */
  readonly eventsPerPage: number;
  readonly subscriptions: 1 | 2;
  /** Whose datasets are published, by number; by it the generator chooses kinds of keys, and envelope columns. */
  readonly counties: readonly number[];
  readonly kinds: readonly DatasetKind[];
  readonly rowsPerDataset: number;
  readonly emptySnapshot: 'no-files' | 'one-file';
  /** Whether a commit that removes a row waits until an operator approves it. */
  readonly isGated: boolean;
  /** Whether the past of tables is kept, at first. */
  readonly keepsHistory: boolean;
  /** Whether each version is a commit of its own, while the past of tables is kept. */
  readonly commitsEveryVersion: boolean;
}

/** How long histories are, and how large their tables. */
export interface Extent {
  readonly fewestSteps: number;
  /** Drawn from; more where there were too few faults by then. */
  readonly mostSteps: number;
  readonly fewestFaults: number;
  /** After a step. */
  readonly shareOfCatchUps: number;
  /** The same of calm. */
  readonly shareOfCalm: number;
  readonly rowsPerDataset: number;
}

const ORDINARY_KINDS: readonly (readonly DatasetKind[])[] = [
  ['parcels', 'permits'],
  ['parcels', 'ordinances'],
  ['permits', 'ordinances'],
];
const EXTREME_KINDS: readonly (readonly DatasetKind[])[] = [
  ['permits', 'specimens'],
  ['permits', 'zoning'],
];
const SHARE_OF_EXTREME_KINDS = 0.1;
const SHARE_OF_GATED = 0.4;
const SHARE_WITH_HISTORY = 0.7;
const SHARE_OF_EVERY_VERSION = 0.3;
/** Of histories with so many datasets that their removal at once needs an operator's approval. */
const SHARE_OF_MANY_DATASETS = 0.04;
const MANY_COUNTIES: readonly number[] = [0, 1, 2, 3, 4];
/** Of the first four, those without envelope columns: without files, nothing would show that they are left out. */
const WITHOUT_ENVELOPE: readonly number[] = [2, 3];

export function settingsOf(random: Random, { rowsPerDataset }: Extent): Settings {
  const isLarge = random.chance(SHARE_OF_MANY_DATASETS);
  const manifest = random.chance(0.3) ? 'dataset' : 'subscription';
  const isExtreme = random.chance(SHARE_OF_EXTREME_KINDS);
  const county = isExtreme ? 0 : random.integer(0, 3);
  return {
    schemaChanges: random.pick(['reload', 'alter', 'alter']),
    removedDatasets: random.pick(['archive', 'drop', 'keep']),
    manifest,
    manifestLastEventId: manifest === 'subscription' && random.chance(0.7),
    eventsPerPage: random.pick([2, 3, 100]),
    subscriptions: random.chance(0.55) ? 2 : 1,
    counties: isLarge ? MANY_COUNTIES : [county],
    kinds: isLarge ? ['parcels', 'permits'] : random.pick(isExtreme ? EXTREME_KINDS : ORDINARY_KINDS),
    rowsPerDataset: isLarge ? 3 : rowsPerDataset,
    emptySnapshot: !isLarge && WITHOUT_ENVELOPE.includes(county) ? 'no-files' : 'one-file',
    recordLastEventId: random.chance(0.8),
    sha256: random.chance(0.8),
    unknownPosition: random.pick(['taken', 'expired']),
    isGated: random.chance(SHARE_OF_GATED),
    keepsHistory: random.chance(SHARE_WITH_HISTORY),
    commitsEveryVersion: random.chance(SHARE_OF_EVERY_VERSION),
  };
}

/** What of them is counted; each has to occur. */
const CHOICES: Readonly<Record<string, (settings: Settings) => boolean>> = {
  'settings: schemaChanges reload': ({ schemaChanges }) => schemaChanges === 'reload',
  'settings: schemaChanges alter': ({ schemaChanges }) => schemaChanges === 'alter',
  'settings: removedDatasets archive': ({ removedDatasets }) => removedDatasets === 'archive',
  'settings: removedDatasets drop': ({ removedDatasets }) => removedDatasets === 'drop',
  'settings: removedDatasets keep': ({ removedDatasets }) => removedDatasets === 'keep',
  'settings: a manifest per dataset': ({ manifest }) => manifest === 'dataset',
  'settings: a manifest per subscription': ({ manifest }) => manifest === 'subscription',
  'settings: a manifest that says how far it goes': (settings) => settings.manifestLastEventId,
  'settings: records that name no newest event': ({ recordLastEventId }) => !recordLastEventId,
  'settings: manifests without digests': ({ sha256 }) => !sha256,
  'settings: an unknown position is taken': ({ unknownPosition }) => unknownPosition === 'taken',
  'settings: an unknown position has expired': ({ unknownPosition }) => unknownPosition === 'expired',
  'settings: removals wait for an operator': ({ isGated }) => isGated,
  'settings: history is kept': ({ keepsHistory }) => keepsHistory,
  'settings: history is not kept': ({ keepsHistory }) => !keepsHistory,
  'settings: each version is a commit': ({ commitsEveryVersion }) => commitsEveryVersion,
  'settings: one subscription': ({ subscriptions }) => subscriptions === 1,
  'settings: two subscriptions': ({ subscriptions }) => subscriptions === 2,
  'settings: many datasets': ({ counties }) => counties === MANY_COUNTIES,
};

export const choices: readonly string[] = Object.keys(CHOICES);

export function choicesIn(settings: Settings): readonly string[] {
  return choices.filter((choice) => CHOICES[choice]?.(settings));
}

export function describeSettings(settings: Settings): string {
  const { schemaChanges, removedDatasets, manifest, manifestLastEventId, eventsPerPage } = settings;
  const { subscriptions, counties, kinds, rowsPerDataset } = settings;
  const { recordLastEventId, sha256, unknownPosition, isGated, keepsHistory, commitsEveryVersion } = settings;
  return [
    `schemaChanges ${schemaChanges}`,
    `removedDatasets ${removedDatasets}`,
    `a manifest per ${manifest}${manifestLastEventId ? ' with lastEventId' : ''}`,
    ...(recordLastEventId ? [] : ['records without lastEventId']),
    ...(sha256 ? [] : ['no digests']),
    `unknown positions ${unknownPosition}`,
    ...(isGated ? ['removals wait for an operator'] : []),
    ...(keepsHistory ? ['history'] : []),
    ...(commitsEveryVersion ? ['each version a commit'] : []),
    `${eventsPerPage} events a page`,
    `${subscriptions} subscriptions`,
    `${kinds.join(' and ')} of counties ${counties.join(' ')}, ${rowsPerDataset} rows`,
  ].join(', ');
}
