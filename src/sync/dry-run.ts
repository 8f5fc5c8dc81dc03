/** The executor of a dry run. It executes nothing: each dataset's catch-up ends with its first step, which is estimated. */

import { present } from '../lib/assert.ts';
import type { Retirement } from '../model/write-jobs.ts';
import { extentOf, type MakeExecutor } from './execute/executor.ts';
import type { StepDependencies, Work } from './execute/step-tools.ts';
import type { PlannedStep } from './result.ts';

export const dryRunExecutor: MakeExecutor = ({ choices }) => ({
  async open() {},
  async execute(work, dependencies) {
    return { kind: 'planned', step: plannedStep(work, dependencies, choices.removedDatasets) };
  },
  forRequests: null,
  async discard() {},
  async discardCandidate() {},
  async ended() {},
  async storeProgress() {},
});

function plannedStep(work: Work, dependencies: StepDependencies, how: Retirement): PlannedStep {
  const { observed } = dependencies.known;
  if (work.kind === 'load') {
    return {
      kind: 'load',
      fromVersion: observed?.version ?? null,
      toVersion: work.listedEntry.entry.version,
      why: work.why,
      ...extentOf(work, dependencies),
    };
  }
  const { version: fromVersion } = present(observed, 'only a first load has no table before it');
  if (work.kind === 'retire') return { kind: 'retire', fromVersion, how, why: work.reason };
  return {
    kind: 'apply',
    fromVersion,
    toVersion: present(work.versions.at(-1), 'a path has versions').version,
    versions: work.versions.length,
    addsColumns: work.addsColumns,
    rows: extentOf(work, dependencies).rows,
  };
}
