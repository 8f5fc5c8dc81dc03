/** Incidents of the machine of a model installation: a mirror that a reader has open, and full disks. */

import { BusyError, StorageError } from '../../../src/model/errors.ts';
import type { DiskUse, Machine } from '../stage.ts';

export class ModelMachine implements Machine {
  #observed = 0;
  #clockSetByMs = 0;
  readonly #full = new Map<DiskUse, number>();

  occupyMirror(times: number): void {
    this.#observed = times;
  }

  fillDisk(what: DiskUse, times: number): void {
    this.#full.set(what, times);
  }

  setClock(byMs: number): void {
    this.#clockSetByMs += byMs;
  }

  /** What the clock of the machine shows at that time. */
  shown(time: Date): Date {
    return new Date(time.getTime() + this.#clockSetByMs);
  }

  recover(): void {
    this.#observed = 0;
    this.#full.clear();
  }

  /** @throws BusyError while a reader has it open. */
  useMirror(): void {
    if (this.#observed === 0) return;
    this.#observed -= 1;
    throw new BusyError('A reader has the mirror open.');
  }

  /** @throws StorageError while the disk is full. */
  useDisk(what: DiskUse): void {
    const times = this.#full.get(what) ?? 0;
    if (times === 0) return;
    this.#full.set(what, times - 1);
    throw new StorageError(`The disk is full (${what}).`);
  }
}
