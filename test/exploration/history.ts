/**
 * A history: a setting, and what happens at which request of which catch-up. Written
 * `two/time/noid: R@events2 F(A)@manifest1 . P@list1`: before the second request for events is answered the dataset gets new
 * content, later the manifest of `A` freezes; the catch-up ends, and in the next one a version is published.
 */

import { parseSetting, type Setting, type SubscriptionId, settingText } from './setting.ts';

/** Requests at which something may happen. */
export const REQUESTS = ['list', 'events', 'manifest', 'entry', 'versions', 'changes', 'download'] as const;

export type RequestKind = (typeof REQUESTS)[number];

/** Steps, by the letter they are written with. */
export const STEPS = {
  P: 'a version is published',
  Q: 'a version is published whose changes are not recorded',
  R: 'the content is replaced under the same version, with a resync event',
  W: 'the newest version is withdrawn, without an event',
  N: 'the versions restart at 1, with a resync event',
  n: 'the versions restart at 1, without an event',
  J: 'the dataset joins a subscription',
  j: 'the dataset joins a subscription, without an event',
  L: 'the dataset leaves a subscription',
  l: 'the dataset leaves a subscription, without an event',
  F: 'the manifest freezes for 14 minutes',
  E: 'the manifest lacks the entry of the dataset for 8 minutes',
  A: 'the log of a subscription restarts',
  X: '90 days pass',
  T: '20 minutes pass',
  D: 'a block of the table is damaged, which the next commit of changes meets',
  V: 'a block of the table is damaged, and `verify` finds it',
  H: 'a row of the table is altered by hand',
  Z: 'once the catch-up has ended the operator runs `verify --deep --repair`',
  S: 'the service refuses whatever is asked about the dataset',
  G: 'the operator sets a limit that every commit to the table exceeds',
  Y: 'the operator approves what waits',
  B: 'the operator rolls the table back to the commit before',
  U: 'the service refuses nothing any more, and the operator lets the table go on (`resume`)',
  K: 'the program is killed',
  C: 'the program is killed, and its checkpoint is lost',
  O: 'the program is killed, and an older checkpoint is restored',
  M: 'the program is killed, and an older mirror is restored',
  I: 'the instance is stopped, another one takes over and catches up, and the first is woken and goes on',
} as const;

export type StepKind = keyof typeof STEPS;

export interface Step {
  readonly kind: StepKind;
  /** Null: it is of no subscription. */
  readonly of: SubscriptionId | null;
}

/** The request of a catch-up before whose answer a step happens: `events2`. */
export interface Point {
  readonly request: RequestKind;
  /** From 1. */
  readonly number: number;
}

export interface Placed {
  readonly step: Step;
  readonly at: Point;
}

export interface History {
  readonly setting: Setting;
  /** Of each catch-up, in their order; those of one point in the order in which they happen. */
  readonly catchUps: readonly (readonly Placed[])[];
}

const STEP_TEXT = /^(?<kind>[A-Za-z])(?:\((?<of>[AB])\))?@(?<request>[a-z]+)(?<number>\d+)$/;

export function historyText({ setting, catchUps }: History): string {
  const steps = catchUps.map((placed) => placed.map(placedText).join(' ')).join(' . ');
  return `${settingText(setting)}: ${steps}`;
}

/** @throws Error for what is no history. */
export function parseHistory(text: string): History {
  const [setting = '', steps = ''] = text.split(':');
  const catchUps = steps.split('.').map((some) => some.trim().split(/\s+/).filter(Boolean).map(parsePlaced));
  return { setting: parseSetting(setting.trim()), catchUps };
}

export function stepText({ kind, of }: Step): string {
  return of === null ? kind : `${kind}(${of})`;
}

export function pointText({ request, number }: Point): string {
  return `${request}${number}`;
}

function placedText({ step, at }: Placed): string {
  return `${stepText(step)}@${pointText(at)}`;
}

function parsePlaced(text: string): Placed {
  const { kind, of, request, number } = STEP_TEXT.exec(text)?.groups ?? {};
  const isStep = (letter: string | undefined): letter is StepKind => letter !== undefined && letter in STEPS;
  const known = REQUESTS.find((one) => one === request);
  if (!isStep(kind) || known === undefined) throw new Error(`"${text}" is no step of a history.`);
  const subscription = of === 'A' || of === 'B' ? of : null;
  return { step: { kind, of: subscription }, at: { request: known, number: Number(number) } };
}
