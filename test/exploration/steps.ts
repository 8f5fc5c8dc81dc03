/** Which steps there are in a setting, and at which requests each of them makes a difference. */

import type { RequestKind, Step, StepKind } from './history.ts';
import { type Setting, type SubscriptionId, subscriptionsOf } from './setting.ts';

const ALL: readonly RequestKind[] = [
  'list',
  'events',
  'manifest',
  'entry',
  'versions',
  'changes',
  'download',
];
const OF_MEMBERS: readonly RequestKind[] = ['list', 'events', 'manifest'];
/** A catch-up performs what was asked before it works on datasets; a later request waits for the next one. */
const OF_OPERATORS: readonly RequestKind[] = ['list', 'versions'];
const OF_MANIFESTS: readonly RequestKind[] = ['manifest', 'entry'];

/** A step just before a request that it does not change is the same as one just before the next request. */
const SEEN_BY: Readonly<Record<StepKind, readonly RequestKind[]>> = {
  P: ['list', 'events', 'manifest', 'entry', 'versions'],
  Q: ['list', 'events', 'manifest', 'entry', 'versions'],
  R: ['list', 'events', 'manifest', 'entry'],
  W: ['manifest', 'entry', 'versions', 'changes'],
  N: ['list', 'events', 'manifest', 'entry', 'versions', 'changes'],
  n: ['manifest', 'entry', 'versions', 'changes'],
  J: OF_MEMBERS,
  j: ['list', 'manifest'],
  L: OF_MEMBERS,
  l: ['list', 'manifest'],
  F: OF_MANIFESTS,
  E: ['manifest'],
  A: OF_MEMBERS,
  X: ['list', 'events', 'manifest', 'entry', 'versions'],
  T: ['list', 'events', 'manifest', 'entry', 'versions'],
  D: ['list', 'changes'],
  V: ['list', 'manifest', 'entry', 'versions', 'changes', 'download'],
  H: ['list', 'versions'],
  Z: ['list'],
  S: ['list', 'entry', 'versions', 'changes', 'download'],
  G: ['list'],
  Y: OF_OPERATORS,
  B: OF_OPERATORS,
  U: OF_OPERATORS,
  K: ALL,
  C: ALL,
  O: ALL,
  M: ALL,
  I: ALL,
};

export function isSeenBy({ kind }: Step, request: RequestKind): boolean {
  return SEEN_BY[kind].includes(request);
}

/** Those that nobody could make good are left out, and those that do nothing. */
export function stepsOf(setting: Setting): readonly Step[] {
  const ids = subscriptionsOf(setting);
  const one = (kind: StepKind): readonly Step[] => [{ kind, of: null }];
  const each = (kind: StepKind): readonly Step[] => ids.map((of: SubscriptionId) => ({ kind, of }));
  const isByDataset = setting.manifest === 'dataset';
  return [
    ...['P' as const, 'Q' as const, 'R' as const, 'W' as const, 'N' as const, 'n' as const].flatMap(one),
    ...['J' as const, 'j' as const, 'L' as const, 'l' as const].flatMap(each),
    ...(isByDataset ? one('F') : [...each('F'), ...each('E')]),
    // Where the record does not state the newest event, a log that restarts may be noticed by nothing.
    ...(setting.record === 'id' ? each('A') : []),
    ...['X' as const, 'T' as const, 'K' as const, 'C' as const, 'I' as const].flatMap(one),
    ...(setting.start === 'later' ? [...DAMAGE, ...OPERATOR, 'O' as const, 'M' as const].flatMap(one) : []),
  ];
}

/** They concern a table that is there. */
const DAMAGE = ['D', 'V', 'H', 'Z'] as const;
const OPERATOR = ['S', 'G', 'Y', 'B', 'U'] as const;

/** Whether the program ends with it, so that nothing more happens in that catch-up. */
export function isEnd({ kind }: Step): boolean {
  return 'KCOM'.includes(kind);
}
