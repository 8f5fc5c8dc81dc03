/**
 * The content of the files of a model installation. A file contains only a handle; what the handle stands for is kept here.
 * So the staging folder is a real one, and what is lost there is lost.
 */

import { readFileSync } from 'node:fs';
import type { DatasetVersion } from '../../../fixtures/feed/model.ts';
import type { Content } from '../../../fixtures/source/content.ts';

export type Spooled =
  | { readonly kind: 'snapshot'; readonly content: Content }
  | { readonly kind: 'changes'; readonly version: DatasetVersion };

export class Spool {
  readonly #kept = new Map<string, Spooled>();
  readonly #handles = new Map<Content | DatasetVersion, string>();

  /** The handle of the thing, to be written into a file. */
  handleOf(spooled: Spooled): string {
    const thing = spooled.kind === 'snapshot' ? spooled.content : spooled.version;
    const handle = this.#handles.get(thing) ?? `${spooled.kind} ${this.#kept.size + 1}`;
    this.#handles.set(thing, handle);
    this.#kept.set(handle, spooled);
    return handle;
  }

  /** Returns the content of the file. @throws Error where it is not there. */
  read(path: string): Spooled {
    const spooled = this.#kept.get(readFileSync(path, 'utf8'));
    if (spooled === undefined) throw new Error(`${path} contains nothing that was spooled`);
    return spooled;
  }
}
