/** Which content of a dataset waits for an operator, and which is not fetched again meanwhile. */

import { describe, expect, it } from 'vitest';
import { baseOf, type Candidate } from '../../src/model/candidate.ts';
import { NO_LIMITS } from '../../src/model/gate.ts';
import { noteAwaiting, suspensionOfCandidate } from '../../src/sync/candidates.ts';
import { waitingContent } from '../../src/sync/plan/candidate.ts';
import { smallWorld } from '../support/small-world.ts';
import { candidate, desired, table } from '../support/sync-values.ts';

describe('content that takes the place of a candidate', () => {
  const observed = table(1);
  const before = candidate({ version: 3, base: baseOf(observed), alike: ['content of 3'] });
  const judged = { ...before.judged, digest: 'b'.repeat(64) };
  const limits = { ...NO_LIMITS, removedRows: { rows: 0, share: null } };

  const noteBeside = async (known: Candidate): Promise<Candidate> => {
    const { parts } = await smallWorld();
    const state = { desired: desired(), observed, failure: null, suspension: suspensionOfCandidate(known) };
    const { content } = before;
    return noteAwaiting(
      { known: state, version: 2, judged, identities: ['content of 2'], besides: content },
      parts,
    );
  };

  it('remembers what waited: two manifests that answer different reloads are not fetched from in turns', async () => {
    const after = await noteBeside(before);
    expect(after).toMatchObject({ version: 2, later: [{ version: 3, alike: ['content of 3'] }] });
    expect(waitingContent(after, limits)).toEqual(new Set(['content of 2', 'content of 3']));
  });

  it('forgets what was judged of another state of the table', async () => {
    expect((await noteBeside({ ...before, base: 'another' })).later).toEqual([]);
  });
});
