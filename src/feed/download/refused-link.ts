/** A link to a file that is not followed because of where it leads. Trouble of the dataset that has the link. */

import { DataError } from '../../model/errors.ts';

export class RefusedLinkError extends DataError {
  /** `place` names where the link leads, without path and query; `reason` is the rest of the sentence. */
  static because(place: string, reason: string, hint: string): RefusedLinkError {
    return new RefusedLinkError(`A link to a file leads to ${place}, ${reason}.`, { hint });
  }
}
