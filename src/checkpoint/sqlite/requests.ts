/** The requests of operators, the newest of them, each with its answer. */

import type Database from 'better-sqlite3';
import { z } from 'zod';
import {
  MAX_REQUESTS,
  MAX_SILENCE_MS,
  type OperatorRequest,
  type RequestAnswer,
  type RequestState,
  type Withdrawal,
} from '../requests.ts';
import { errorCode } from './suspensions.ts';
import { exactText, id, json, oneOf, orNull, table, time } from './table.ts';

interface RequestRow extends OperatorRequest {
  readonly askedAt: Date;
  readonly state: RequestState['kind'];
  /** Null until there is one. */
  readonly answer: RequestAnswer | null;
}

const requestAnswer: z.ZodType<RequestAnswer> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('done'), text: z.string() }),
  z.object({
    kind: z.literal('refused'),
    error: z.string().transform(errorCode.read),
    message: z.string(),
    hint: z.string().nullable(),
  }),
]);

export function requestsTable(database: Database.Database) {
  const requests = table<RequestRow>(database, 'requests', {
    requestId: exactText,
    datasetId: id,
    command: exactText,
    parameters: json(z.unknown()),
    askedAt: time,
    state: oneOf('waiting', 'begun', 'done', 'refused'),
    answer: orNull(json(requestAnswer)),
  });
  const all = requests.select();
  const one = requests.select('WHERE request_id = ?');
  const waiting = requests.select("WHERE state = 'waiting' AND asked_at > ? ORDER BY request_number");
  const put = requests.put(
    ['requestId', 'datasetId', 'command', 'parameters', 'askedAt', 'state', 'answer'],
    { state: 'state', answer: 'answer' },
  );
  const dropOldest = database.prepare<[number]>(
    'DELETE FROM requests WHERE request_number <= (SELECT max(request_number) FROM requests) - ?',
  );
  const remove = database.prepare<[string]>(
    "DELETE FROM requests WHERE request_id = ? AND state = 'waiting'",
  );
  const begin = database.prepare<[string]>("UPDATE requests SET state = 'begun' WHERE request_id = ?");
  const answer = database.prepare<[string, string, string]>(
    'UPDATE requests SET state = ?, answer = ? WHERE request_id = ?',
  );
  /** A time after `now` is that of a clock that was set since. */
  const awaited = (now: Date): readonly RequestRow[] =>
    waiting(new Date(now.getTime() - MAX_SILENCE_MS).toISOString()).filter(
      ({ askedAt }) => askedAt.getTime() - now.getTime() < MAX_SILENCE_MS,
    );
  return {
    all,
    ask(request: OperatorRequest, at: Date) {
      put({ ...request, askedAt: at, state: 'waiting', answer: null });
      dropOldest.run(MAX_REQUESTS);
    },
    /** One that was begun never waits again. */
    withdraw: (requestId: string): Withdrawal =>
      remove.run(requestId).changes > 0 ? { kind: 'removed', wasBegun: false } : { kind: 'kept' },
    state(requestId: string): RequestState | null {
      const [row] = one(requestId);
      if (row === undefined) return null;
      return row.answer ?? (row.state === 'begun' ? { kind: 'begun' } : { kind: 'waiting' });
    },
    waitingDatasets: (now: Date): readonly string[] => [
      ...new Set(awaited(now).map(({ datasetId }) => datasetId)),
    ],
    begin(datasetId: string, now: Date): OperatorRequest | null {
      const row = awaited(now).find((request) => request.datasetId === datasetId);
      if (row === undefined) return null;
      begin.run(row.requestId);
      const { requestId, command, parameters } = row;
      return { requestId, datasetId, command, parameters };
    },
    answer: (requestId: string, given: RequestAnswer) =>
      void answer.run(given.kind, JSON.stringify(given), requestId),
  };
}
