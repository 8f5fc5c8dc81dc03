/** Refusals that stand until a person has acted: at most one for each scope. */

import type Database from 'better-sqlite3';
import { unreachable } from '../../lib/assert.ts';
import type { RefusalScope } from '../../model/errors.ts';
import type { Hold } from '../checkpoint.ts';
import { MAX_LINKS, MAX_TEXT_CHARACTERS } from './limits.ts';
import { cut, cutOrNull, whole } from './text.ts';

const SELECT = `
  SELECT scope_kind AS scopeKind, scope_id AS scopeId, operation, status, code, message, links,
    held_at AS heldAt, key_hash AS keyHash
  FROM holds ORDER BY scope_kind, scope_id`;

const REPLACE = `
  INSERT INTO holds (scope_kind, scope_id, operation, status, code, message, links, held_at, key_hash)
  VALUES (@scopeKind, @scopeId, @operation, @status, @code, @message, @links, @heldAt, @keyHash)
  ON CONFLICT DO UPDATE SET
    operation = excluded.operation, status = excluded.status, code = excluded.code, message = excluded.message,
    links = excluded.links, held_at = excluded.held_at, key_hash = excluded.key_hash`;

const DELETE = 'DELETE FROM holds WHERE scope_kind = @scopeKind AND scope_id = @scopeId';

interface ScopeRow {
  readonly scopeKind: RefusalScope['kind'];
  /** Empty for the workspace and for retirements. */
  readonly scopeId: string;
}

interface Row extends ScopeRow {
  readonly operation: string;
  readonly status: number | null;
  readonly code: string | null;
  readonly message: string;
  /** A JSON list of pairs of name and address. */
  readonly links: string;
  readonly heldAt: string;
  readonly keyHash: string;
}

export interface HoldsTable {
  all(): readonly Hold[];
  put(hold: Hold): void;
  /** True when there was one. */
  remove(scope: RefusalScope): boolean;
}

export function holdsTable(database: Database.Database): HoldsTable {
  const select = database.prepare<[], Row>(SELECT);
  const replace = database.prepare<[Row]>(REPLACE);
  const remove = database.prepare<[ScopeRow]>(DELETE);
  return {
    all: () => select.all().map(fromRow),
    put(hold) {
      replace.run(toRow(hold));
    },
    remove: (scope) => remove.run(scopeToRow(scope)).changes > 0,
  };
}

function toRow({ refusal, heldAt, keyHash }: Hold): Row {
  return {
    ...scopeToRow(refusal.scope),
    operation: cut(refusal.operation),
    status: refusal.status,
    code: cutOrNull(refusal.code),
    message: cut(refusal.message),
    links: JSON.stringify([...refusal.links].filter(isKept).slice(0, MAX_LINKS)),
    heldAt: heldAt.toISOString(),
    keyHash,
  };
}

/** A link that was cut would lead elsewhere, so it is left out. */
function isKept([name, address]: readonly [string, string]): boolean {
  return name.length + address.length <= MAX_TEXT_CHARACTERS;
}

function fromRow(row: Row): Hold {
  const { operation, status, code, message, keyHash } = row;
  const links = new Map(JSON.parse(row.links) as readonly [string, string][]);
  return {
    refusal: { scope: scopeFromRow(row), operation, status, code, message, links },
    heldAt: new Date(row.heldAt),
    keyHash,
  };
}

function scopeToRow(scope: RefusalScope): ScopeRow {
  switch (scope.kind) {
    case 'workspace':
    case 'retirement':
      return { scopeKind: scope.kind, scopeId: '' };
    case 'subscription':
      return { scopeKind: scope.kind, scopeId: whole(scope.subscriptionId, 'subscriptionId') };
    case 'dataset':
      return { scopeKind: scope.kind, scopeId: whole(scope.datasetId, 'datasetId') };
    default:
      return unreachable(scope);
  }
}

function scopeFromRow({ scopeKind, scopeId }: ScopeRow): RefusalScope {
  switch (scopeKind) {
    case 'workspace':
    case 'retirement':
      return { kind: scopeKind };
    case 'subscription':
      return { kind: scopeKind, subscriptionId: scopeId };
    case 'dataset':
      return { kind: scopeKind, datasetId: scopeId };
    default:
      return unreachable(scopeKind);
  }
}
