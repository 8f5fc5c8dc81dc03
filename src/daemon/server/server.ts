/**
 * The status server: how the daemon is, for supervisors, for Prometheus and for people; and where webhooks arrive.
 *
 * Invariant: it only looks. Nothing here holds up the loop, changes the mirror or ends the process; what goes wrong in
 * an answer is answered with 500 and logged once.
 */

import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Observed } from '../state.ts';

export interface StatusServerParts {
  readonly listen: ListenAddress;
  /** Of the program: `0.1.0`. */
  readonly version: string;
  readonly observed: Observed;
  /** What `feed-sync status --json` tells. Called for each question; may reject. */
  readonly status: () => Promise<unknown>;
  readonly places: Places;
  /** Null: no webhook is received. */
  readonly webhook: WebhookParts | null;
  readonly clock: Clock;
  readonly log: Log;
}

export interface ListenAddress {
  /** A name or an address, an IPv6 address without brackets. */
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
}

/** What is measured of the disk. */
export interface Places {
  readonly mirrorPath: string;
  readonly checkpointPath: string;
  readonly dataDirectory: string;
  /** Bytes that are kept free. */
  readonly diskReserveBytes: number;
}

export interface WebhookParts {
  /** A secret on each line, `whsec_` and base64; any of them is accepted. Read for each delivery, so that rotation needs no signal. */
  readonly secretFile: string;
  /** The text of a file. @throws the system's errors, with `code`. */
  readonly readFile: (path: string) => string;
  /** Stores that a delivery arrived. False: it had arrived before. */
  readonly remember: (deliveryId: string, at: Date) => boolean;
  /** Makes the loop poll now. Must return at once. */
  readonly wake: () => void;
}

export interface StatusServer {
  /** Where it listens: `http://127.0.0.1:9464`. */
  readonly url: string;
  /** Accepts nothing more, finishes the answers that are begun, within `CLOSE_TIMEOUT_MS`. Never rejects. */
  close(): Promise<void>;
}

/**
 * Resolves when it listens.
 * @throws ConfigurationError when the address cannot be listened on, naming it and why.
 */
export declare function startStatusServer(parts: StatusServerParts): Promise<StatusServer>;
