/** Finds the response to each question. */

import type { IncomingMessage } from 'node:http';
import { unreachable } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Observed } from '../state.ts';
import { type Answer, jsonAnswer, metricsAnswer, NOT_FOUND, OK, UNAVAILABLE } from './answers.ts';
import {
  healthView,
  type Reason,
  reasonsNotLive,
  reasonsNotReady,
  reasonsNotWell,
  verdictView,
} from './health.ts';
import type { Metrics } from './metrics.ts';
import type { Question } from './server.ts';
import { type Folders, measure } from './sizes.ts';
import { receive, type WebhookParts } from './webhook.ts';

export interface QuestionParts {
  /** The version of the program: `0.1.0`. */
  readonly version: string;
  readonly observed: Observed;
  /** Returns the report of `feed-sync status --json`. */
  readonly status: () => Promise<unknown>;
  readonly places: Folders;
  /** Null: webhooks are off. */
  readonly webhook: WebhookParts | null;
  readonly clock: Clock;
}

/** @throws the errors of the parts. */
export type AnswerQuestion = (question: Question, request: IncomingMessage) => Promise<Answer>;

export function answererOf(parts: QuestionParts, metrics: Metrics): AnswerQuestion {
  const { version, observed, status, places, webhook, clock } = parts;
  return async (question, request) => {
    switch (question) {
      case 'livez':
        return verdictAnswer(reasonsNotLive({ loopSilentMs: observed.loopSilentMs() }));
      case 'readyz':
        return verdictAnswer(reasonsNotReady(observed.state()));
      case 'healthz': {
        const state = observed.state();
        return verdictAnswer(reasonsNotWell(state), healthView(state, version));
      }
      case 'status':
        return jsonAnswer(OK, await status());
      case 'metrics': {
        const sizes = await measure(places);
        return metricsAnswer(await metrics.render(observed.state(), sizes), metrics.contentType);
      }
      case 'webhook':
        return webhook === null ? NOT_FOUND : receive(request, webhook, clock, metrics.countDelivery);
      default:
        return unreachable(question);
    }
  };
}

function verdictAnswer(reasons: readonly Reason[], further: Readonly<Record<string, unknown>> = {}): Answer {
  return jsonAnswer(reasons.length === 0 ? OK : UNAVAILABLE, { ...verdictView(reasons), ...further });
}
